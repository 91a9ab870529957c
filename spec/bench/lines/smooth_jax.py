import jax, jax.numpy as jnp
@jax.jit
def smooth(u):
    p = jnp.pad(u, 1, mode="edge")
    return (p[:-2] + p[1:-1] + p[2:]) / 3
u = jnp.arange(1000, dtype=jnp.float32)
v = smooth(u)
print(v[10])
