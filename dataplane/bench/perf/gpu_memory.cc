#include "gpu_memory.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

#include "base/divide.h"
#include "base/fd.h"

namespace peercache::perf {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
// cuMemAlloc aligns memory of this size to it, so the dma-buf begins with a page.
constexpr size_t kAlignment = size_t{2} << 20;

// Numbers and types of CUDA's binary interface. cuda.h has them, and needs NVIDIA's toolkit.
using Device = int;
using Context = void*;
using Pointer = unsigned long long;
constexpr int kDmaBufSupported = 124;  // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
constexpr int kDmaBufHandle = 1;       // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

struct Driver {
  int (*init)(unsigned);
  int (*get_device)(Device*, int ordinal);
  int (*get_attribute)(int* value, int attribute, Device);
  int (*retain_context)(Context*, Device);
  int (*release_context)(Device);
  int (*use_context)(Context);
  int (*allocate)(Pointer*, size_t);
  int (*free)(Pointer);
  int (*read)(void*, Pointer, size_t);
  int (*export_range)(void* handle, Pointer, size_t, int type, unsigned long long flags);
  int (*describe)(int error, const char** text);

  static Result<Driver> Load() {
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return Unavailable(
          fmt::format("{} cannot be loaded ({}): install NVIDIA's driver, or leave out --gpu",
                      kLibrary, dlerror()));
    }
    Driver d{};
    std::string missing;
    const auto need = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
      if (*function == nullptr) missing += std::string(" ") + name;
    };
    need("cuInit", &d.init);
    need("cuDeviceGet", &d.get_device);
    need("cuDeviceGetAttribute", &d.get_attribute);
    need("cuDevicePrimaryCtxRetain", &d.retain_context);
    need("cuDevicePrimaryCtxRelease_v2", &d.release_context);
    need("cuCtxSetCurrent", &d.use_context);
    need("cuMemAlloc_v2", &d.allocate);
    need("cuMemFree_v2", &d.free);
    need("cuMemcpyDtoH_v2", &d.read);
    need("cuMemGetHandleForAddressRange", &d.export_range);  // since CUDA 11.7
    need("cuGetErrorString", &d.describe);
    if (missing.empty()) return d;
    return Unavailable(
        fmt::format("{} lacks{}: install NVIDIA's driver R515 or later", kLibrary, missing));
  }

  Status Check(int error, std::string_view what) const {
    if (error == 0) return {};
    const char* text = nullptr;
    (void)describe(error, &text);
    return Unavailable(
        fmt::format("CUDA: {}: {} (error {})", what, text != nullptr ? text : "unknown", error));
  }
};

}  // namespace

// Holds a reference to the GPU's primary context, and what was taken there.
class GpuMemory::Impl {
 public:
  explicit Impl(const Driver& driver) : driver_(driver) {}
  ~Impl() {
    dma_buf_.Reset();
    if (address_ != 0) (void)driver_.free(address_);
    if (context_ != nullptr) (void)driver_.release_context(device_);
  }

  Status Take(size_t bytes) {
    size_ = DivideUp(bytes, kAlignment) * kAlignment;
    if (Status s = driver_.Check(driver_.init(0), "starting"); !s.ok()) return s;
    if (Status s = driver_.Check(driver_.get_device(&device_, 0), "looking for a GPU"); !s.ok())
      return s;
    int supported = 0;
    if (driver_.get_attribute(&supported, kDmaBufSupported, device_) != 0 || supported == 0) {
      return Unavailable(
          "the GPU's driver exports no dma-bufs: install NVIDIA's open kernel modules "
          "(nvidia-open, R515 or later), on Linux 5.12 or later");
    }
    if (Status s = driver_.Check(driver_.retain_context(&context_, device_), "taking the GPU");
        !s.ok())
      return s;
    if (Status s = Use(); !s.ok()) return s;
    if (Status s = driver_.Check(driver_.allocate(&address_, size_),
                                 fmt::format("taking {} bytes of the GPU", size_));
        !s.ok())
      return s;
    int fd = -1;
    if (Status s = driver_.Check(driver_.export_range(&fd, address_, size_, kDmaBufHandle, 0),
                                 "exporting a dma-buf");
        !s.ok())
      return s;
    dma_buf_ = UniqueFd(fd);
    return {};
  }

  Status Read(uint64_t address, std::span<std::byte> to) const {
    if (Status s = Use(); !s.ok()) return s;
    return driver_.Check(driver_.read(to.data(), address, to.size()), "reading the GPU");
  }

  uint64_t address() const { return address_; }
  size_t size() const { return size_; }
  int dma_buf() const { return dma_buf_.get(); }

 private:
  // The current context is one of each thread.
  Status Use() const { return driver_.Check(driver_.use_context(context_), "using the GPU"); }

  Driver driver_;
  Device device_ = 0;
  Context context_ = nullptr;
  Pointer address_ = 0;
  size_t size_ = 0;
  UniqueFd dma_buf_;
};

GpuMemory::GpuMemory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GpuMemory::GpuMemory(GpuMemory&&) noexcept = default;
GpuMemory& GpuMemory::operator=(GpuMemory&&) noexcept = default;
GpuMemory::~GpuMemory() = default;

Result<GpuMemory> GpuMemory::Create(size_t bytes) {
  const auto driver = Driver::Load();
  if (!driver.ok()) return driver.status();
  auto impl = std::make_unique<Impl>(*driver);
  if (Status s = impl->Take(bytes); !s.ok()) return s;
  return GpuMemory(std::move(impl));
}

uint64_t GpuMemory::address() const { return impl_->address(); }
size_t GpuMemory::size() const { return impl_->size(); }
int GpuMemory::dma_buf() const { return impl_->dma_buf(); }
Status GpuMemory::Read(uint64_t address, std::span<std::byte> to) const {
  return impl_->Read(address, to);
}

}  // namespace peercache::perf
