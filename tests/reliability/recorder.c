/* Records, in order, every change that a process makes under one directory: LD_PRELOAD this.
 *
 * Each record: operation (1 byte), lengths of two paths (2 x u32), a number (i64), length of data
 * (u64); then the paths and the data. One lock is held from before a change until it is recorded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int out = -1;
static const char *root;
static size_t root_length;

__attribute__((constructor)) static void begin(void) {
    root = getenv("RECORD_ROOT");
    const char *to = getenv("RECORD_TO");
    if (!root || !to) return;
    root_length = strlen(root);
    out = syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

static void put(const void *data, size_t length) {
    const char *rest = data;
    while (length > 0) {
        ssize_t done = syscall(SYS_write, out, rest, length);
        if (done <= 0) abort();
        rest += done;
        length -= done;
    }
}

static void record(char op, const char *one, const char *other, int64_t number, const void *data,
                   uint64_t length) {
    uint32_t sizes[2] = {strlen(one), other ? strlen(other) : 0};
    put(&op, 1);
    put(sizes, sizeof sizes);
    put(&number, sizeof number);
    put(&length, sizeof length);
    put(one, sizes[0]);
    if (other) put(other, sizes[1]);
    if (length) put(data, length);
}

static int inside(const char *path) {
    if (out < 0 || strncmp(path, root, root_length) != 0) return 0;
    return path[root_length] == '/' || path[root_length] == 0;
}

/* The path of an open file, if it is one that is recorded. */
static int of_descriptor(int descriptor, char *path) {
    char link[64];
    if (out < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return inside(path) && !strstr(path, " (deleted)");
}

static int at(int folder, const char *name, char *path) {
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        char base[PATH_MAX];
        if (folder == AT_FDCWD || !of_descriptor(folder, base)) return 0;
        snprintf(path, PATH_MAX, "%.2000s/%.2000s", base, name);
    }
    return inside(path);
}

void record_note(const char *text) {
    pthread_mutex_lock(&turn);
    if (out >= 0) record('N', text, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
}

static int opened(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    if (!(flags & (O_CREAT | O_TRUNC)) || !at(folder, name, path))
        return syscall(SYS_openat, folder, name, flags, mode);
    pthread_mutex_lock(&turn);
    struct stat status;
    int there = stat(path, &status) == 0;
    int descriptor = syscall(SYS_openat, folder, name, flags, mode);
    if (descriptor >= 0 && !there) record('C', path, NULL, 0, NULL, 0);
    if (descriptor >= 0 && there && (flags & O_TRUNC)) record('T', path, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    return descriptor;
}

#define MODE(last) \
    mode_t mode = 0; \
    if (flags & O_CREAT) { va_list rest; va_start(rest, last); mode = va_arg(rest, mode_t); va_end(rest); }

int open(const char *name, int flags, ...) { MODE(flags) return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return opened(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE(flags) return opened(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE(flags) return opened(folder, name, flags, mode); }

static ssize_t written(int descriptor, const void *data, size_t length, off_t offset, int given) {
    char path[PATH_MAX];
    pthread_mutex_lock(&turn);
    int ours = of_descriptor(descriptor, path);
    if (ours && !given) offset = lseek(descriptor, 0, SEEK_CUR);
    ssize_t done = given ? syscall(SYS_pwrite64, descriptor, data, length, offset)
                         : syscall(SYS_write, descriptor, data, length);
    if (ours && done > 0) record('W', path, NULL, offset, data, done);
    pthread_mutex_unlock(&turn);
    return done;
}

ssize_t write(int descriptor, const void *data, size_t length) { return written(descriptor, data, length, 0, 0); }
ssize_t pwrite(int descriptor, const void *data, size_t length, off_t offset) { return written(descriptor, data, length, offset, 1); }
ssize_t pwrite64(int descriptor, const void *data, size_t length, off_t offset) { return written(descriptor, data, length, offset, 1); }

static int cut(int descriptor, off_t size) {
    char path[PATH_MAX];
    pthread_mutex_lock(&turn);
    int done = syscall(SYS_ftruncate, descriptor, size);
    if (done == 0 && of_descriptor(descriptor, path)) record('T', path, NULL, size, NULL, 0);
    pthread_mutex_unlock(&turn);
    return done;
}

int ftruncate(int descriptor, off_t size) { return cut(descriptor, size); }
int ftruncate64(int descriptor, off_t size) { return cut(descriptor, size); }

/* With what is in the file now: some libraries write by ways that are not seen here. */
static void synced(int descriptor, const char *path) {
    struct stat status;
    fstat(descriptor, &status);
    if (!S_ISREG(status.st_mode)) {
        record('S', path, NULL, -1, NULL, 0);
        return;
    }
    char *content = malloc(status.st_size + 1);
    int again = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    ssize_t length = again < 0 ? 0 : pread(again, content, status.st_size, 0);
    if (again >= 0) close(again);
    record('S', path, NULL, length, content, length);
    free(content);
}

static int sync_(long call, int descriptor) {
    char path[PATH_MAX];
    pthread_mutex_lock(&turn);
    int done = syscall(call, descriptor);
    if (done == 0 && of_descriptor(descriptor, path)) synced(descriptor, path);
    pthread_mutex_unlock(&turn);
    return done;
}

int fsync(int descriptor) { return sync_(SYS_fsync, descriptor); }
int fdatasync(int descriptor) { return sync_(SYS_fdatasync, descriptor); }

static int moved(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char one[PATH_MAX], other[PATH_MAX];
    pthread_mutex_lock(&turn);
    int done = syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
    if (done == 0 && at(from_folder, from, one) && at(to_folder, to, other))
        record('R', one, other, flags, NULL, 0);
    pthread_mutex_unlock(&turn);
    return done;
}

int rename(const char *from, const char *to) { return moved(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return moved(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return moved(a, from, b, to, flags); }

static int removed(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    pthread_mutex_lock(&turn);
    int ours = at(folder, name, path);
    int done = syscall(SYS_unlinkat, folder, name, flags);
    if (done == 0 && ours) record('U', path, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    return done;
}

int unlink(const char *name) { return removed(AT_FDCWD, name, 0); }
int unlinkat(int folder, const char *name, int flags) { return removed(folder, name, flags); }
int rmdir(const char *name) { return removed(AT_FDCWD, name, AT_REMOVEDIR); }

static int made(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    pthread_mutex_lock(&turn);
    int done = syscall(SYS_mkdirat, folder, name, mode);
    if (done == 0 && at(folder, name, path)) record('D', path, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    return done;
}

int mkdir(const char *name, mode_t mode) { return made(AT_FDCWD, name, mode); }
int mkdirat(int folder, const char *name, mode_t mode) { return made(folder, name, mode); }
