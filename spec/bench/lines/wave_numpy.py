import cupynumeric as np
import matplotlib.pyplot as plt
n = 400
y, x = np.arange(n)[:, None], np.arange(n)[None, :]
u = np.exp(-((y - 100) ** 2 + (x - 130) ** 2) / 300).astype(np.float32)
up = u.copy()
for t in range(1, 601):
    p = np.pad(u, 1, mode="edge")
    sides = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
    u, up = 2 * u - up + 0.25 * (sides - 4 * u), u
    if t % 100 == 0:
        plt.imsave(f"wave{t}.png", u, cmap="RdBu")
