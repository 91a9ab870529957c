import jax, jax.numpy as jnp
import matplotlib.pyplot as plt
n = 400
@jax.jit
def step(u, up):
    p = jnp.pad(u, 1, mode="edge")
    sides = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
    return 2 * u - up + 0.25 * (sides - 4 * u), u
y, x = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
u = up = jnp.exp(-((y - 100) ** 2 + (x - 130) ** 2) / 300)
for t in range(1, 601):
    u, up = step(u, up)
    if t % 100 == 0:
        plt.imsave(f"wave{t}.png", u, cmap="RdBu")
