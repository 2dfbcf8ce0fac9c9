/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the Nth malloc, calloc, realloc or strdup of a program's main thread fail. N is the first
 * number of the mapped file $WEFT_FAIL_ALLOC and is counted down; at 0 nothing is counted. The test
 * writes N, sends the program a request and reads what is left of N. Loaded with LD_PRELOAD.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int *left;

__attribute__((constructor)) static void shim_start(void)
{
	const char *path = getenv("WEFT_FAIL_ALLOC");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at;

	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED)
		left = at;
}

static int is_the_one(void)
{
	if (!left || atomic_load(left) <= 0 || syscall(SYS_gettid) != getpid() ||
	    atomic_fetch_sub(left, 1) != 1)
		return 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t len_bytes)
{
	static void *(*next)(size_t len_bytes);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "malloc");
	return is_the_one() ? NULL : next(len_bytes);
}

void *calloc(size_t count, size_t len_bytes)
{
	static void *(*next)(size_t count, size_t len_bytes);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "calloc");
	return is_the_one() ? NULL : next(count, len_bytes);
}

void *realloc(void *memory, size_t len_bytes)
{
	static void *(*next)(void *memory, size_t len_bytes);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "realloc");
	return is_the_one() ? NULL : next(memory, len_bytes);
}

/* The sanitizers' own strdup does not call malloc. */
char *strdup(const char *text)
{
	size_t len_bytes = strlen(text) + 1;
	char *copy = malloc(len_bytes);

	return copy ? memcpy(copy, text, len_bytes) : NULL;
}
