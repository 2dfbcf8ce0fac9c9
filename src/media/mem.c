/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory medium: blocks in anonymous memory, gone when the target ends.
 *
 * Any reactor. Every operation except the search for extents ends inside submit. A flush has
 * nothing to do: no write becomes more durable, so has_volatile_cache is false and FUA has no
 * effect.
 *
 * A block written while it is read: on one reactor the block is always whole, because no other
 * callback runs during a copy. Between reactors media->guard protects granules of 4 KiB (whole
 * blocks): a granule is held while it is copied, cleared or released. Connections that send from
 * and receive into mapped memory hold it likewise (tcp/).
 */
#include "media/spec.h"

#include "base/log.h"
#include "media/extents.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* From this size on, releasing pages is faster than clearing them, whatever the caller asked
 * for. */
#define RELEASE_MIN_BYTES (1024 * 1024)
#define HUGE_BYTES_USUAL  (2 * 1024 * 1024)
/* Released under one hold of the guard, so that no other reactor spins for long. */
#define RELEASE_STEP_BYTES (2 * 1024 * 1024)

/* Address space reserved behind media, so that they can grow in place. Control thread. */
#ifdef __SANITIZE_THREAD__
#define RESERVE_BUDGET_BYTES (64ull << 30)
#else
#define RESERVE_BUDGET_BYTES (16ull << 40)
#endif
#define RESERVE_FACTOR 4
/*
 * Small media side by side share huge pages; reserved space between them prevents the sharing. With
 * thousands of small media that costs a tenth of the rate. So only the first ones get reserves.
 */
#define SMALL_RESERVES_MAX 256
static uint64_t reserve_used_bytes;
static unsigned small_reserves;

/* The memory itself, shared by a medium and the larger media that follow it. Control thread. */
struct mem_backing {
	unsigned refs;
	uint8_t *base;
	uint64_t usable_bytes;   /* readable and writable, whole pages */
	uint64_t reserved_bytes; /* of address space, at least usable_bytes */
	uint64_t page_bytes;
	bool is_huge;
	bool is_small_reserve; /* counted in small_reserves */
};

struct mem_media {
	struct media media;
	uint8_t *base; /* backing->base */
	uint64_t page_bytes;
	/* False for huge pages: a released huge page may be unavailable when it is needed again. */
	bool can_release;
	struct mem_backing *backing;
};

/* Zeroes a range. Releases whole pages to the kernel; released pages read as zeroes too. */
static void mem_release_held(struct mem_media *mem, uint64_t offset, uint64_t len_bytes)
{
	uint64_t end = offset + len_bytes;
	uint64_t first = (offset + mem->page_bytes - 1) / mem->page_bytes * mem->page_bytes;
	uint64_t last = end / mem->page_bytes * mem->page_bytes;

	if (!mem->can_release || first >= last ||
	    madvise(mem->base + first, last - first, MADV_DONTNEED) != 0) {
		memset(mem->base + offset, 0, len_bytes);
		return;
	}
	memset(mem->base + offset, 0, first - offset);
	memset(mem->base + last, 0, end - last);
}

/* Releases in steps that end at huge page boundaries, each as long as the guard grants at once. */
static void mem_release(struct mem_media *mem, uint64_t offset, uint64_t len_bytes)
{
	struct block_guard *guard = mem->media.guard;

	if (!guard) {
		mem_release_held(mem, offset, len_bytes);
		return;
	}
	while (len_bytes > 0) {
		uint8_t *at = mem->base + offset;
		size_t step = RELEASE_STEP_BYTES - (uintptr_t)at % RELEASE_STEP_BYTES;

		step = block_guard_take_exclusive(guard, at, step < len_bytes ? step : len_bytes);
		mem_release_held(mem, offset, step);
		block_guard_drop_exclusive(guard, at, step);
		offset += step;
		len_bytes -= step;
	}
}

MEDIA_IO_FITS(struct reactor_op);

/* Helper thread. */
static int mem_extents_blocking(struct reactor_op *op)
{
	struct media_io *io = container_of(op, struct media_io, context);

	return extents_of_memory(io, container_of(io->media, struct mem_media, media)->base);
}

static void mem_extents_done(struct reactor_op *op, int res)
{
	struct media_io *io = container_of(op, struct media_io, context);

	io->done(io, res);
}

static void mem_submit(struct media_io *io)
{
	struct mem_media *mem = container_of(io->media, struct mem_media, media);
	uint8_t *at = mem->base + io->offset;
	struct block_guard *guard = io->media->guard;
	struct reactor_op *op; /* MEDIA_EXTENTS: io->context */

	switch (io->kind) {
	case MEDIA_READ:
		for (unsigned i = 0; i < io->iov_count; i++) {
			block_guard_copy_out(guard, io->iov[i].iov_base, at, io->iov[i].iov_len);
			at += io->iov[i].iov_len;
		}
		break;
	case MEDIA_WRITE:
		for (unsigned i = 0; i < io->iov_count; i++) {
			block_guard_copy_in(guard, at, io->iov[i].iov_base, io->iov[i].iov_len);
			at += io->iov[i].iov_len;
		}
		break;
	case MEDIA_FLUSH:
		break;
	case MEDIA_WRITE_ZEROES:
		if (io->may_discard || io->len_bytes >= RELEASE_MIN_BYTES)
			mem_release(mem, io->offset, io->len_bytes);
		else
			block_guard_zero(guard, at, io->len_bytes);
		break;
	case MEDIA_DISCARD:
		mem_release(mem, io->offset, io->len_bytes);
		break;
	case MEDIA_EXTENTS:
		op = (struct reactor_op *)(void *)io->context;
		op->done = mem_extents_done;
		reactor_offload(io->reactor, op, mem_extents_blocking);
		return;
	}
	io->done(io, 0);
}

static void *mem_map(struct media *media, uint64_t offset, uint64_t len_bytes)
{
	struct mem_media *mem = container_of(media, struct mem_media, media);

	return mem->base + offset;
}

static void mem_backing_put(struct mem_backing *backing)
{
	if (--backing->refs > 0)
		return;
	if (backing->base)
		munmap(backing->base, backing->reserved_bytes);
	reserve_used_bytes -= backing->reserved_bytes - backing->usable_bytes;
	small_reserves -= backing->is_small_reserve;
	free(backing);
}

static void mem_close(struct media *media)
{
	struct mem_media *mem = container_of(media, struct mem_media, media);

	mem_backing_put(mem->backing);
	free(mem);
}

static int mem_reopen(struct media *media, const struct media_spec *spec, struct media **ret_media,
		      struct media_error *ret_error);

static const struct media_ops mem_ops = {
	.name = "mem",
	.submit = mem_submit,
	.map = mem_map,
	.close = mem_close,
	.reopen = mem_reopen,
};

/* The page size that MAP_HUGETLB uses by default. */
static uint64_t huge_page_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	if (!file)
		return HUGE_BYTES_USUAL;
	while (kib == 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Hugepagesize: %llu kB", &kib) != 1)
			kib = 0;
	}
	fclose(file);
	return kib ? kib * 1024 : HUGE_BYTES_USUAL;
}

/* Whether this medium may reserve address space for growth, `reserved` bytes in all. */
static bool mem_may_reserve(const struct mem_backing *backing, uint64_t reserved)
{
	if (backing->is_huge || backing->usable_bytes > RESERVE_BUDGET_BYTES)
		return false;
	if (backing->usable_bytes < HUGE_BYTES_USUAL && small_reserves >= SMALL_RESERVES_MAX)
		return false;
	return reserve_used_bytes + (reserved - backing->usable_bytes) <= RESERVE_BUDGET_BYTES;
}

/* Maps the whole range as address space, then makes the first part usable. NULL: failed. */
static uint8_t *mem_reserve(uint64_t usable_bytes, uint64_t reserved_bytes)
{
	void *base = mmap(NULL, reserved_bytes, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	if (mprotect(base, usable_bytes, PROT_READ | PROT_WRITE) != 0) {
		munmap(base, reserved_bytes);
		return NULL;
	}
	return base;
}

/* Advice only: memory works without transparent huge pages too. */
static void mem_settle(const struct mem_backing *backing, uint64_t from_bytes)
{
	uint8_t *base = backing->base + from_bytes;
	uint64_t len_bytes = backing->usable_bytes - from_bytes;

	if (!backing->is_huge && madvise(base, len_bytes, MADV_HUGEPAGE) != 0)
		log_debug("media", "mem: no transparent huge pages: %s", strerror(errno));
}

static int mem_allocate(struct mem_backing *backing, uint64_t size, struct media_error *ret_error)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (backing->is_huge ? MAP_HUGETLB : 0);
	uint64_t reserved;
	void *base;
	int code;

	backing->page_bytes =
		backing->is_huge ? huge_page_bytes() : (uint64_t)sysconf(_SC_PAGESIZE);
	if (size > SIZE_MAX - backing->page_bytes)
		return media_fail(ret_error, -ENOMEM,
				  "mem: %llu bytes exceed the address space of this machine",
				  (unsigned long long)size);
	backing->usable_bytes =
		(size + backing->page_bytes - 1) / backing->page_bytes * backing->page_bytes;
	backing->reserved_bytes = backing->usable_bytes;
	reserved = backing->usable_bytes * RESERVE_FACTOR;
	if (mem_may_reserve(backing, reserved)) {
		backing->base = mem_reserve(backing->usable_bytes, reserved);
		if (backing->base) {
			backing->reserved_bytes = reserved;
			reserve_used_bytes += reserved - backing->usable_bytes;
			backing->is_small_reserve = backing->usable_bytes < HUGE_BYTES_USUAL;
			small_reserves += backing->is_small_reserve;
			return 0;
		}
	}
	base = mmap(NULL, backing->usable_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	code = -errno;
	if (base == MAP_FAILED && backing->is_huge)
		return media_fail(ret_error, code,
				  "mem: cannot allocate %llu huge pages of %llu KiB (%s); raise "
				  "/proc/sys/vm/nr_hugepages or leave out \"huge\"",
				  (unsigned long long)(backing->usable_bytes / backing->page_bytes),
				  (unsigned long long)(backing->page_bytes / 1024),
				  strerror(-code));
	if (base == MAP_FAILED)
		return media_fail(ret_error, code,
				  "mem: cannot allocate %llu bytes (%s); choose a smaller size",
				  (unsigned long long)size, strerror(-code));
	backing->base = base;
	return 0;
}

/* Takes a reference to the backing. */
static int mem_create(const struct media_spec *spec, struct mem_backing *backing,
		      struct media **ret_media, struct media_error *ret_error)
{
	struct mem_media *mem = calloc(1, sizeof(*mem));

	if (!mem)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	mem->media.ops = &mem_ops;
	mem->media.size_bytes = spec->size_bytes;
	mem->media.block_bytes = spec->block_bytes ? spec->block_bytes : MEDIA_BLOCK_DEFAULT;
	mem->media.buffer_align_bytes = 1;
	mem->media.can_discard = true;
	mem->media.reads_zero_after_discard = true;
	mem->media.knows_extents = true;
	mem->media.works_in_submit = true;
	mem->media.is_thin = !backing->is_huge;
	mem->can_release = !backing->is_huge;
	mem->base = backing->base;
	mem->page_bytes = backing->page_bytes;
	mem->backing = backing;
	backing->refs++;
	*ret_media = &mem->media;
	return 0;
}

int media_mem_open(const struct media_spec *spec, struct media **ret_media,
		   struct media_error *ret_error)
{
	struct mem_backing *backing = calloc(1, sizeof(*backing));
	int res;

	if (!backing)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	backing->refs = 1;
	backing->is_huge = spec->wants_huge_pages;
	res = mem_allocate(backing, spec->size_bytes, ret_error);
	if (res < 0) {
		free(backing);
		return res;
	}
	mem_settle(backing, 0);
	res = mem_create(spec, backing, ret_media, ret_error);
	mem_backing_put(backing);
	return res;
}

/* Grows in place. Memory behind the old end was never used, so it is zeroes. */
static int mem_grow(struct mem_backing *backing, uint64_t size, struct media_error *ret_error)
{
	uint64_t wanted =
		(size + backing->page_bytes - 1) / backing->page_bytes * backing->page_bytes;
	uint64_t before = backing->usable_bytes;

	if (wanted <= before)
		return 0;
	if (size > backing->reserved_bytes || wanted > backing->reserved_bytes)
		return media_fail(ret_error, -EBUSY,
				  "mem: cannot grow beyond %llu bytes while it is served%s; remove "
				  "the namespace and add it again, or use a file",
				  (unsigned long long)backing->reserved_bytes,
				  backing->is_huge ? " (huge pages)" : "");
	if (mprotect(backing->base + before, wanted - before, PROT_READ | PROT_WRITE) != 0)
		return media_fail(
			ret_error, -errno,
			"mem: cannot allocate %llu more bytes (%s); choose a smaller size",
			(unsigned long long)(wanted - before), strerror(errno));
	backing->usable_bytes = wanted;
	reserve_used_bytes -= wanted - before;
	mem_settle(backing, before);
	return 0;
}

static int mem_reopen(struct media *media, const struct media_spec *spec, struct media **ret_media,
		      struct media_error *ret_error)
{
	struct mem_media *mem = container_of(media, struct mem_media, media);
	int res;

	if (spec->wants_huge_pages != mem->backing->is_huge)
		return media_fail(ret_error, -EBUSY,
				  "mem: \"huge\" cannot change while the namespace is served; "
				  "remove the namespace and add it again");
	if (spec->size_bytes < media->size_bytes)
		return media_fail(ret_error, -EINVAL,
				  "mem: has %llu bytes and cannot shrink to %llu; remove the "
				  "namespace and add it again",
				  (unsigned long long)media->size_bytes,
				  (unsigned long long)spec->size_bytes);
	res = mem_grow(mem->backing, spec->size_bytes, ret_error);
	return res < 0 ? res : mem_create(spec, mem->backing, ret_media, ret_error);
}
