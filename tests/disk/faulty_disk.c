/* A disk that fails, preloaded into a process: calls that change files below a folder are counted, and
 * those from the `first` up to the `end` of them fail, come back short, or are the last before the power
 * is cut. The plan is shared memory in a file, so a test can read the counts and change its mind.
 *
 * FAULTY_DISK_PLAN   the file of the plan
 * FAULTY_DISK_FOLDER the folder; its real path
 * FAULTY_DISK_SYNCED where the content of each file is kept as of its last sync, by inode
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, RENAME = 4, OPEN = 8, GROW = 16, MAKE = 32 };
enum { NONE, FULL, BROKEN, SHORT, CUT };

struct plan {
    uint64_t kind, classes, first, end; /* set by the test; `first` counts from 1 */
    uint64_t calls, hit;                /* counted here */
};

static struct plan *plan;
static char folder[4096], synced[4096];
static size_t folder_length;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("FAULTY_DISK_PLAN"), *below = getenv("FAULTY_DISK_FOLDER");
    const char *kept = getenv("FAULTY_DISK_SYNCED");
    if (!at || !below) return;
    int file = syscall(SYS_openat, AT_FDCWD, at, O_RDWR | O_CLOEXEC);
    if (file < 0) abort();
    void *shared = mmap(NULL, sizeof(struct plan), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) abort();
    close(file);
    snprintf(folder, sizeof folder, "%s", below);
    folder_length = strlen(folder);
    if (kept) snprintf(synced, sizeof synced, "%s", kept);
    plan = shared;
}

static int is_below(const char *path) {
    return !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || !path[folder_length]);
}

static int names_ours(int at, const char *path) {
    if (!plan || !path) return 0;
    if (path[0] == '/') return is_below(path);
    char link[64], found[4096];
    if (at == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t size = readlink(link, found, sizeof found - 1);
    if (size <= 0) return 0;
    found[size] = 0;
    return is_below(found);
}

static int is_ours(int fd) {
    if (!plan || fd < 0) return 0;
    char link[64], found[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int before = errno;
    ssize_t size = readlink(link, found, sizeof found - 1);
    errno = before;
    if (size <= 0) return 0;
    found[size] = 0;
    return is_below(found);
}

static uint64_t met(uint64_t class) {
    if (!(plan->classes & class)) return NONE;
    uint64_t number = __atomic_add_fetch(&plan->calls, 1, __ATOMIC_SEQ_CST);
    if (!plan->kind || number < plan->first || number >= plan->end) return NONE;
    __atomic_add_fetch(&plan->hit, 1, __ATOMIC_SEQ_CST);
    if (plan->kind == CUT) {
        syscall(SYS_kill, getpid(), 9);
        for (;;) syscall(SYS_pause);
    }
    return plan->kind;
}

/* Whether the call fails; errno is set then. */
static int fails(uint64_t class) {
    uint64_t kind = met(class);
    if (kind == FULL) errno = ENOSPC;
    else if (kind == BROKEN) errno = EIO;
    else return 0;
    return 1;
}

static void keep(int fd) {
    struct stat is;
    if (!synced[0] || syscall(SYS_fstat, fd, &is) || !S_ISREG(is.st_mode)) return;
    char path[4200], name[4200], source[64], block[65536];
    snprintf(path, sizeof path, "%s/%lu.%lx", synced, (unsigned long)is.st_ino, (unsigned long)pthread_self());
    snprintf(name, sizeof name, "%s/%lu", synced, (unsigned long)is.st_ino);
    snprintf(source, sizeof source, "/proc/self/fd/%d", fd);
    int in = syscall(SYS_openat, AT_FDCWD, source, O_RDONLY | O_CLOEXEC);
    int out = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (in < 0 || out < 0) abort();
    for (long size; (size = syscall(SYS_read, in, block, sizeof block)) > 0;)
        if (syscall(SYS_write, out, block, size) != size) abort();
    syscall(SYS_close, in);
    syscall(SYS_close, out);
    if (syscall(SYS_rename, path, name)) abort();
}

/* The inode is free for another file soon: what was kept of it is not that file's. */
static void forget(int at, const char *path) {
    struct stat is;
    if (!synced[0] || !names_ours(at, path)) return;
    int before = errno;
    if (!syscall(SYS_newfstatat, at, path, &is, AT_SYMLINK_NOFOLLOW) && is.st_nlink == 1 && S_ISREG(is.st_mode)) {
        char name[4200];
        snprintf(name, sizeof name, "%s/%lu", synced, (unsigned long)is.st_ino);
        syscall(SYS_unlink, name);
    }
    errno = before;
}

#define WRITING(result, name, parameters, whole, half)                       \
    result name parameters {                                                 \
        if (is_ours(fd)) {                                                   \
            uint64_t kind = met(WRITE);                                      \
            if (kind == FULL) return errno = ENOSPC, -1;                     \
            if (kind == BROKEN) return errno = EIO, -1;                      \
            if (kind == SHORT) return half;                                  \
        }                                                                    \
        return whole;                                                        \
    }
#define HALF (size > 1 ? size / 2 : size)

WRITING(ssize_t, write, (int fd, const void *data, size_t size), syscall(SYS_write, fd, data, size),
        syscall(SYS_write, fd, data, HALF))
WRITING(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at),
        syscall(SYS_pwrite64, fd, data, size, at), syscall(SYS_pwrite64, fd, data, HALF, at))
WRITING(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at),
        syscall(SYS_pwrite64, fd, data, size, at), syscall(SYS_pwrite64, fd, data, HALF, at))
WRITING(ssize_t, writev, (int fd, const struct iovec *parts, int count),
        syscall(SYS_writev, fd, parts, count),
        syscall(SYS_write, fd, parts[0].iov_base, parts[0].iov_len))

#define SYNCING(name, number)                                                \
    int name(int fd) {                                                       \
        if (!is_ours(fd)) return syscall(number, fd);                        \
        if (fails(SYNC)) return -1;                                          \
        int said = syscall(number, fd);                                      \
        if (!said) keep(fd);                                                 \
        return said;                                                         \
    }
SYNCING(fsync, SYS_fsync)
SYNCING(fdatasync, SYS_fdatasync)

#define GROWING(name, parameters, call)                                      \
    int name parameters {                                                    \
        if (is_ours(fd) && fails(GROW)) return -1;                           \
        return call;                                                         \
    }
GROWING(ftruncate, (int fd, off_t size), syscall(SYS_ftruncate, fd, size))
GROWING(ftruncate64, (int fd, off64_t size), syscall(SYS_ftruncate, fd, size))
GROWING(fallocate, (int fd, int mode, off_t at, off_t size), syscall(SYS_fallocate, fd, mode, at, size))
GROWING(fallocate64, (int fd, int mode, off64_t at, off64_t size), syscall(SYS_fallocate, fd, mode, at, size))

static int opened(int at, const char *path, int flags, mode_t mode) {
    if ((flags & (O_CREAT | O_WRONLY | O_RDWR)) && names_ours(at, path)) {
        /* A full disk makes no new file, but opens one that is there. */
        int is_new = (flags & O_CREAT) && syscall(SYS_faccessat, at, path, F_OK);
        if ((is_new || plan->kind != FULL) && fails(OPEN)) return -1;
    }
    return syscall(SYS_openat, at, path, flags, mode);
}
#define MODE(flags, last)                                                    \
    mode_t mode = 0;                                                         \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                   \
        va_list rest;                                                        \
        va_start(rest, last);                                                \
        mode = va_arg(rest, mode_t);                                         \
        va_end(rest);                                                        \
    }
int open(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, flags) return opened(at, path, flags, mode); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static int renamed(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    if (names_ours(to_at, to)) {
        if (fails(RENAME)) return -1;
        if (!(flags & 2)) forget(to_at, to); /* not where they change places */
    }
    return syscall(SYS_renameat2, from_at, from, to_at, to, flags);
}
int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_at, const char *from, int to_at, const char *to) { return renamed(from_at, from, to_at, to, 0); }
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    return renamed(from_at, from, to_at, to, flags);
}
int mkdir(const char *path, mode_t mode) {
    if (names_ours(AT_FDCWD, path) && fails(MAKE)) return -1;
    return syscall(SYS_mkdir, path, mode);
}
int link(const char *from, const char *to) {
    if (names_ours(AT_FDCWD, to) && fails(MAKE)) return -1;
    return syscall(SYS_link, from, to);
}
int symlink(const char *to, const char *path) {
    if (names_ours(AT_FDCWD, path) && fails(MAKE)) return -1;
    return syscall(SYS_symlink, to, path);
}
int unlink(const char *path) {
    forget(AT_FDCWD, path);
    return syscall(SYS_unlink, path);
}
int unlinkat(int at, const char *path, int flags) {
    if (!(flags & AT_REMOVEDIR)) forget(at, path);
    return syscall(SYS_unlinkat, at, path, flags);
}

/* Who asks for room first, and goes no further, has met the full disk as well. */
static int is_full(void) {
    if (plan->kind != FULL || plan->calls + 1 < plan->first || plan->calls + 1 >= plan->end) return 0;
    __atomic_add_fetch(&plan->hit, 1, __ATOMIC_SEQ_CST);
    return 1;
}
#define TOLD_FULL(name, kind_of, parameters, call)                           \
    int name parameters {                                                    \
        int said = call;                                                     \
        if (!said && (kind_of) && is_full()) is->f_bfree = is->f_bavail = 0; \
        return said;                                                         \
    }
TOLD_FULL(statvfs, names_ours(AT_FDCWD, path), (const char *path, struct statvfs *is),
          REAL(statvfs)(path, is))
TOLD_FULL(statvfs64, names_ours(AT_FDCWD, path), (const char *path, struct statvfs64 *is),
          REAL(statvfs64)(path, is))

/* chDB is loaded so that it finds its own names first, and the system's behind them: ours in between. */
void *dlopen(const char *path, int mode) { return REAL(dlopen)(path, mode & ~RTLD_DEEPBIND); }
