/* libcuda.so.1 for machines without a GPU: memory of the host, exported as a dma-buf of
 * /dev/udmabuf. With CUDA_EXPORTS=nothing it is that of a driver without dma-bufs, and with
 * CUDA_EXPORTS=file what it exports is no dma-buf. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OUT_OF_MEMORY = 2, DMA_BUF_SUPPORTED = 124 };

static int exports(const char *what) {
  const char *told = getenv("CUDA_EXPORTS");
  return told != NULL && strcmp(told, what) == 0;
}

static int memory = -1; /* the one allocation */
static size_t allocated;

int cuInit(unsigned flags) { return (int)flags; }

int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == DMA_BUF_SUPPORTED && !exports("nothing");
  return device;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = &memory;
  return device;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return device; }

int cuCtxSetCurrent(void *context) { return context == &memory ? 0 : 1; }

int cuMemAlloc_v2(unsigned long long *address, size_t bytes) {
  memory = memfd_create("gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0 || ftruncate(memory, (off_t)bytes) != 0 ||
      fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return OUT_OF_MEMORY;
  void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (map == MAP_FAILED) return OUT_OF_MEMORY;
  allocated = bytes;
  *address = (unsigned long long)map;
  return 0;
}

int cuMemFree_v2(unsigned long long address) {
  close(memory);
  return munmap((void *)address, allocated);
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) {
  memcpy(to, (const void *)from, bytes);
  return 0;
}

int cuMemGetHandleForAddressRange(void *handle, unsigned long long address, size_t bytes, int type,
                                  unsigned long long flags) {
  (void)address, (void)type, (void)flags;
  if (exports("file")) {
    *(int *)handle = fcntl(memory, F_DUPFD_CLOEXEC, 0);
    return 0;
  }
  const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
  struct udmabuf_create create = {
      .memfd = (unsigned)memory, .flags = UDMABUF_FLAGS_CLOEXEC, .size = bytes};
  *(int *)handle = ioctl(device, UDMABUF_CREATE, &create);
  close(device);
  return *(int *)handle < 0;
}

int cuGetErrorString(int error, const char **text) {
  *text = error == OUT_OF_MEMORY ? "out of memory" : "invalid value";
  return 0;
}
