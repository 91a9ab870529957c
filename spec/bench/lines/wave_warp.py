import warp as wp
import numpy as np
import matplotlib.pyplot as plt
n = 400
@wp.kernel
def step(u: wp.array2d(dtype=float), up: wp.array2d(dtype=float)):
    y, x = wp.tid()
    ys = u[wp.min(y + 1, n - 1), x] + u[wp.max(y - 1, 0), x]
    xs = u[y, wp.min(x + 1, n - 1)] + u[y, wp.max(x - 1, 0)]
    up[y, x] = 2.0 * u[y, x] - up[y, x] + 0.25 * (ys + xs - 4.0 * u[y, x])
y, x = np.mgrid[:n, :n]
drop = np.exp(-((y - 100) ** 2 + (x - 130) ** 2) / 300).astype(np.float32)
u, up = wp.array(drop), wp.array(drop)
for t in range(1, 601):
    wp.launch(step, dim=(n, n), inputs=[u, up])
    u, up = up, u
    if t % 100 == 0:
        plt.imsave(f"wave{t}.png", u.numpy(), cmap="RdBu")
