/* A stand-in for libnvidia-ml.so.1: GPU_STANDIN_FREE bytes are free; GPU_STANDIN_MIG splits the GPU. Signatures: nvml.h, 12.x. */
#include <stdlib.h>

typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned field, scope; long long timestamp, latency; int type, ret; unsigned long long value; } field;

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **handle) { (void)bus; *handle = (void *)1; return 0; }
int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *pending)
{
    (void)handle;
    *now = *pending = 1;
    return getenv("GPU_STANDIN_MIG") ? 0 : 3; /* NVML_ERROR_NOT_SUPPORTED */
}
int nvmlDeviceGetMemoryInfo(void *handle, memory *m)
{
    const char *free = getenv("GPU_STANDIN_FREE");
    (void)handle;
    m->total = 80ULL << 30;
    m->free = free ? strtoull(free, NULL, 10) : 0;
    m->used = m->total - m->free;
    return 0;
}
int nvmlDeviceGetFieldValues(void *handle, int count, field *f)
{
    (void)handle;
    (void)count;
    f->ret = 0;
    f->value = f->field; /* in KiB */
    return 0;
}
