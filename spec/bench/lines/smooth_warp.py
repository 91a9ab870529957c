import warp as wp
import numpy as np
n = 1000
@wp.kernel
def smooth(u: wp.array(dtype=float), v: wp.array(dtype=float)):
    i = wp.tid()
    v[i] = (u[wp.max(i - 1, 0)] + u[i] + u[wp.min(i + 1, n - 1)]) / 3.0
u = wp.array(np.arange(n, dtype=np.float32))
v = wp.zeros_like(u)
wp.launch(smooth, dim=n, inputs=[u, v])
print(v.numpy()[10])
