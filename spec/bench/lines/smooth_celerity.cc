#include <celerity.h>
#include <cstdio>
#include <numeric>
#include <vector>
int main() {
  const size_t n = 1000;
  std::vector<float> first(n);
  std::iota(first.begin(), first.end(), 0.0f);
  celerity::queue q;
  celerity::buffer<float> u(first.data(), n), v(n);
  q.submit([&](celerity::handler &cgh) {
    celerity::accessor a(u, cgh, celerity::access::neighborhood(1), celerity::read_only);
    celerity::accessor b(v, cgh, celerity::access::one_to_one(), celerity::write_only,
                         celerity::no_init);
    cgh.parallel_for(celerity::range(n), [=](celerity::item<1> it) {
      const size_t i = it[0];
      b[i] = (a[i > 0 ? i - 1 : 0] + a[i] + a[i + 1 < n ? i + 1 : i]) / 3;
    });
  });
  q.submit([&](celerity::handler &cgh) {
    celerity::accessor b(v, cgh, celerity::access::all(), celerity::read_only_host_task);
    cgh.host_task(celerity::on_master_node, [=] { std::printf("%g\n", b[10]); });
  });
}
