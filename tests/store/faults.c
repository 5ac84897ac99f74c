/* A library to preload: the n-th system call that changes a file below a folder fails, or kills the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[4096];
static long left = -1;
static int code, lasting;

/* After `n` more calls below `where`, fail with `error` (0: kill), once or, if `always`, from then on. */
void faults_set(const char *where, long n, int error, int always) {
    strncpy(folder, where, sizeof folder - 1);
    left = n;
    code = error;
    lasting = always;
}

long faults_left(void) { return left; }

static int below(const char *path) { return left >= 0 && path && folder[0] && !strncmp(path, folder, strlen(folder)); }

static int below_handle(int handle) {
    char name[64], path[4096];
    if (left < 0 || !folder[0]) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", handle);
    ssize_t size = readlink(name, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return below(path);
}

static int fails(int concerned) {
    if (!concerned) return 0;
    if (left > 0) { left--; return 0; }
    if (!code) kill(getpid(), SIGKILL);
    if (!lasting) left = -1;
    errno = code;
    return 1;
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int handle, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    if (fails(below_handle(handle))) {
        if (code == ENOSPC && size > 1) { int kept = errno; real(handle, data, size / 2); errno = kept; }
        return -1;
    }
    return real(handle, data, size);
}

static int opening(const char *path, int flags) { return fails((flags & (O_CREAT | O_WRONLY | O_RDWR)) && below(path)); }

int open64(const char *path, int flags, ...) {
    REAL(int, open64, const char *, int, ...);
    va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more);
    return opening(path, flags) ? -1 : real(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    REAL(int, open, const char *, int, ...);
    va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more);
    return opening(path, flags) ? -1 : real(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    return fails(below(path)) ? -1 : real(path, mode);
}

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    return fails(below(to)) ? -1 : real(from, to);
}

int unlink(const char *path) {
    REAL(int, unlink, const char *);
    return fails(below(path)) ? -1 : real(path);
}
