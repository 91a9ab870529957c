-- What image.c reads is what the compiler that can be asked says.
local ffi = require("ffi")
local cuda = require("spec.device.cuda")
local k = require("spec.device.compile")

local TEXT = [=[
struct pair { float a; int b; };
kernel void first(item<2> it, in<float, 2> a, out<double3, 1> b, pair p, bool f, unsigned long n) {
  b(it[0]) = make_double3(a(it[0], it[1]), p.a, n);
}
kernel void second(group<1> g, inout<int, 1> v, local<int, 4> t, float x) {
  t[g.local(0)] = v(g.global(0));
  g.barrier();
  v(g.global(0)) = t[0] * x;
}
]=]


describe("cel_module_begin_images", function()
  for _, case in ipairs { { "a module", 90 }, { "PTX, for what NVRTC does not know", 999 } } do
    it("reads the parameters of kernels from " .. case[1], function()
      if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
      local options = { prelude = k.embedded("group.cuh"), architecture = case[2] }
      local here = assert(k.compile(TEXT, options))
      local there = assert(k.check_cuda(TEXT, options))
      assert.equal(2, k.c.cel_module_kernels(there))
      for kernel = 0, 1 do
        assert.same(k.params(here, kernel), k.params(there, kernel))
        assert.is_true(#k.params(there, kernel) > 3)
        assert.equal(k.c.cel_module_values_size(here, kernel),
          k.c.cel_module_values_size(there, kernel))
      end
      assert.equal("second", ffi.string(k.c.cel_module_kernel_name(there, 1)))
    end)
  end
end)
