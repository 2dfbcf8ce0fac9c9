/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a weft built with -pg -mfentry: writes every function call to the file
 * $WEFT_SPINE. tools/spine builds this library and reads that file: the address at which the
 * program is loaded, the number of records, the records. Any thread. x86-64 only.
 */
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RECORDS_MAX (1u << 21)

struct record {
	uint64_t time_ns;  /* CLOCK_MONOTONIC */
	uint64_t function; /* an address inside the function */
	uint64_t stack;    /* where its return address is stored */
	uint64_t thread;
};

struct trace {
	uint64_t base;
	atomic_ullong count; /* may exceed RECORDS_MAX; further records are lost */
	struct record records[RECORDS_MAX];
};

static struct trace *trace;

static int note_base(struct dl_phdr_info *info, size_t size, void *ret_base)
{
	(void)size;
	*(uint64_t *)ret_base = info->dlpi_addr;
	return 1; /* the first one is the program */
}

static __attribute__((constructor)) void trace_open(void)
{
	const char *path = getenv("WEFT_SPINE");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
	void *memory;

	if (fd < 0 || ftruncate(fd, sizeof(struct trace)) != 0)
		_exit(125);
	memory = mmap(NULL, sizeof(struct trace), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		_exit(125);
	dl_iterate_phdr(note_base, memory);
	trace = memory;
}

/* Called by __fentry__ below. On the stack: an address in the function, then its return address. */
__attribute__((used)) static void trace_add(const uint64_t *stack)
{
	static _Thread_local uint64_t thread;
	struct timespec now;
	uint64_t at;

	if (!trace)
		return;
	at = atomic_fetch_add(&trace->count, 1);
	if (at >= RECORDS_MAX)
		return;
	if (thread == 0)
		thread = (uint64_t)gettid();
	clock_gettime(CLOCK_MONOTONIC, &now);
	trace->records[at] = (struct record){
		.time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
		.function = stack[0],
		.stack = (uint64_t)(uintptr_t)(stack + 1),
		.thread = thread,
	};
}

/*
 * The first instruction of every function calls __fentry__, before the arguments leave their
 * registers: all argument registers are preserved. Nothing that trace_add calls uses vector
 * registers.
 */
__asm__(".globl __fentry__\n"
	".type __fentry__, @function\n"
	"__fentry__:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	push %rax\n"
	"	push %rcx\n"
	"	push %rdx\n"
	"	push %rsi\n"
	"	push %rdi\n"
	"	push %r8\n"
	"	push %r9\n"
	"	push %r10\n"
	"	push %r11\n"
	"	lea 8(%rbp), %rdi\n"
	"	and $-16, %rsp\n"
	"	call trace_add\n"
	"	lea -72(%rbp), %rsp\n"
	"	pop %r11\n"
	"	pop %r10\n"
	"	pop %r9\n"
	"	pop %r8\n"
	"	pop %rdi\n"
	"	pop %rsi\n"
	"	pop %rdx\n"
	"	pop %rcx\n"
	"	pop %rax\n"
	"	pop %rbp\n"
	"	ret\n"
	".size __fentry__, . - __fentry__\n");
