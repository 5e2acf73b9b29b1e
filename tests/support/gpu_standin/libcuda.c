/* A stand-in for libcuda.so.1: one GPU whose memory is that of the host. Signatures: the CUDA driver API, 12.x. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetPCIBusId(char *bus, int size, int device) { (void)device; snprintf(bus, size, "0000:3b:00.0"); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device)
{
    const char *made = getenv("GPU_STANDIN_CONTEXT");
    (void)device;
    *context = (void *)1;
    if (made) {
        FILE *file = fopen(made, "a");
        if (file) { fputs("a context\n", file); fclose(file); }
    }
    return 0;
}
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
int cuMemAlloc_v2(uint64_t *address, size_t size) { *address = (uint64_t)(uintptr_t)malloc(size); return *address ? 0 : 2; }
int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t size) { memset((void *)(uintptr_t)address, value, size); return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)(uintptr_t)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)(uintptr_t)from, size); return 0; }
int cuDeviceGetName(char *name, int size, int device) { (void)device; snprintf(name, size, "Stand-in GPU"); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)attribute; (void)device; *value = 1; return 0; }
int cuGetErrorName(int code, const char **name) { (void)code; *name = "CUDA_ERROR_STANDIN"; return 0; }
