#include "image.h"
#include <celerity.h>
#include <cmath>
#include <string>
#include <utility>
int main() {
  const size_t n = 400;
  celerity::queue q;
  celerity::buffer<float, 2> u({n, n}), up({n, n});
  for (auto *field : {&u, &up}) {
    q.submit([&](celerity::handler &cgh) {
      celerity::accessor a(*field, cgh, celerity::access::one_to_one(), celerity::write_only,
                           celerity::no_init);
      cgh.parallel_for(celerity::range(n, n), [=](celerity::item<2> it) {
        const float y = it[0] - 100.0f, x = it[1] - 130.0f;
        a[it] = sycl::exp(-(y * y + x * x) / 300);
      });
    });
  }
  for (int t = 1; t <= 600; ++t) {
    q.submit([&](celerity::handler &cgh) {
      celerity::accessor a(u, cgh, celerity::access::neighborhood(1, 1), celerity::read_only);
      celerity::accessor b(up, cgh, celerity::access::one_to_one(), celerity::read_write);
      cgh.parallel_for(celerity::range(n, n), [=](celerity::item<2> it) {
        const size_t y = it[0], x = it[1];
        const float ys = a[sycl::min(y + 1, n - 1)][x] + a[y > 0 ? y - 1 : 0][x];
        const float xs = a[y][sycl::min(x + 1, n - 1)] + a[y][x > 0 ? x - 1 : 0];
        b[it] = 2 * a[it] - b[it] + 0.25f * (ys + xs - 4 * a[it]);
      });
    });
    std::swap(u, up);
    if (t % 100 != 0) continue;
    q.submit([&](celerity::handler &cgh) {
      celerity::accessor a(u, cgh, celerity::access::all(), celerity::read_only_host_task);
      cgh.host_task(celerity::on_master_node, [=] {
        save_image("wave" + std::to_string(t) + ".png", a.get_pointer(), n, n);
      });
    });
  }
}
