/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory medium: blocks in anonymous memory, gone when the target ends.
 *
 * Any reactor; every operation ends inside submit. A flush has nothing to do: no write becomes
 * more stable by it, so has_volatile_cache is false and FUA means nothing.
 *
 * Atomicity of a block that is written while it is read: on one reactor always whole, because no
 * other callback runs during a copy. Between two reactors a reader may see part of the old and
 * part of the new block; this release does not prevent that. The same holds for a reader that
 * sends straight from map().
 */
#include "media/spec.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* From here on, giving pages back is faster than clearing them, whatever the caller asked for. */
#define RELEASE_MIN_BYTES (1024 * 1024)
#define HUGE_BYTES_USUAL  (2 * 1024 * 1024)

#ifdef __SANITIZE_THREAD__
/* Of the thread sanitizer's run time: two hosts may race for a block, as the head says. */
void AnnotateBenignRaceSized(const char *file, int line, const volatile void *mem, size_t size,
			     const char *what);
#endif

struct mem_media {
	struct media media;
	uint8_t *base;
	uint64_t mapped_bytes;
	uint64_t page_bytes;
	bool can_release; /* not huge pages: one given back might not be there when needed again */
};

/* Zeroes a range; whole pages in it are given back to the kernel, which reads as zeroes too. */
static void mem_release(struct mem_media *mem, uint64_t offset, uint64_t len_bytes)
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

static void mem_submit(struct media_io *io)
{
	struct mem_media *mem = container_of(io->media, struct mem_media, media);
	uint8_t *at = mem->base + io->offset;

	switch (io->kind) {
	case MEDIA_READ:
		for (unsigned i = 0; i < io->iov_count; i++) {
			memcpy(io->iov[i].iov_base, at, io->iov[i].iov_len);
			at += io->iov[i].iov_len;
		}
		break;
	case MEDIA_WRITE:
		for (unsigned i = 0; i < io->iov_count; i++) {
			memcpy(at, io->iov[i].iov_base, io->iov[i].iov_len);
			at += io->iov[i].iov_len;
		}
		break;
	case MEDIA_FLUSH:
		break;
	case MEDIA_WRITE_ZEROES:
		if (io->may_discard || io->len_bytes >= RELEASE_MIN_BYTES)
			mem_release(mem, io->offset, io->len_bytes);
		else
			memset(at, 0, io->len_bytes);
		break;
	case MEDIA_DISCARD:
		mem_release(mem, io->offset, io->len_bytes);
		break;
	}
	io->done(io, 0);
}

static void *mem_map(struct media *media, uint64_t offset, uint64_t len_bytes)
{
	struct mem_media *mem = container_of(media, struct mem_media, media);

	return mem->base + offset;
}

static void mem_close(struct media *media)
{
	struct mem_media *mem = container_of(media, struct mem_media, media);

	munmap(mem->base, mem->mapped_bytes);
	free(mem);
}

static const struct media_ops mem_ops = {
	.name = "mem",
	.submit = mem_submit,
	.map = mem_map,
	.close = mem_close,
};

/* The size that MAP_HUGETLB uses when none is named. */
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

static int mem_allocate(struct mem_media *mem, bool is_huge, struct media_error *ret_error)
{
	uint64_t size = mem->media.size_bytes;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (is_huge ? MAP_HUGETLB : 0);
	void *base;
	int code;

	mem->page_bytes = is_huge ? huge_page_bytes() : (uint64_t)sysconf(_SC_PAGESIZE);
	if (size > SIZE_MAX - mem->page_bytes)
		return media_fail(ret_error, -ENOMEM, "mem: %llu bytes do not fit this machine",
				  (unsigned long long)size);
	mem->mapped_bytes = (size + mem->page_bytes - 1) / mem->page_bytes * mem->page_bytes;
	base = mmap(NULL, mem->mapped_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	code = -errno;
	if (base == MAP_FAILED && is_huge)
		return media_fail(ret_error, code,
				  "mem: no %llu huge pages of %llu KiB (%s); raise "
				  "/proc/sys/vm/nr_hugepages or leave out \"huge\"",
				  (unsigned long long)(mem->mapped_bytes / mem->page_bytes),
				  (unsigned long long)(mem->page_bytes / 1024), strerror(-code));
	if (base == MAP_FAILED)
		return media_fail(ret_error, code,
				  "mem: the kernel gives no %llu bytes (%s); choose a smaller size",
				  (unsigned long long)size, strerror(-code));
	/* Advice: without transparent huge pages it works all the same. */
	if (!is_huge && madvise(base, mem->mapped_bytes, MADV_HUGEPAGE) != 0)
		log_debug("media", "mem: no transparent huge pages: %s", strerror(errno));
	mem->base = base;
#ifdef __SANITIZE_THREAD__
	AnnotateBenignRaceSized(__FILE__, __LINE__, base, mem->mapped_bytes, "blocks of a medium");
#endif
	return 0;
}

int media_mem_open(const struct media_spec *spec, struct media **ret_media,
		   struct media_error *ret_error)
{
	struct mem_media *mem = calloc(1, sizeof(*mem));
	int res;

	if (!mem)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	mem->media.ops = &mem_ops;
	mem->media.size_bytes = spec->size_bytes;
	mem->media.block_bytes = spec->block_bytes ? spec->block_bytes : MEDIA_BLOCK_DEFAULT;
	mem->media.buffer_align_bytes = 1;
	mem->media.can_discard = true;
	mem->media.reads_zero_after_discard = true;
	mem->media.is_thin = !spec->wants_huge_pages;
	mem->can_release = !spec->wants_huge_pages;
	res = mem_allocate(mem, spec->wants_huge_pages, ret_error);
	if (res < 0) {
		free(mem);
		return res;
	}
	*ret_media = &mem->media;
	return 0;
}
