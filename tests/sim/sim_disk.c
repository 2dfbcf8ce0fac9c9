/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated disk: who has it open, its locks, its size and its condition. sim_disk_op.c has the
 * operations in flight. Memory of disks and handles belongs to no process. One thread.
 */
#include "sim_disk.h"

#include "sim_disk_private.h"

#include "media/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct list disks = {&disks, &disks};
static unsigned disks_made;

/* ---- handles -------------------------------------------------------------------------------- */

void disk_handles_reap(struct sim_disk *disk)
{
	list_for_each_safe(node, &disk->handles) {
		struct disk_handle *handle = list_entry(node, struct disk_handle, node);

		if (!handle->is_dead || handle->under_way > 0)
			continue;
		list_remove(&handle->node);
		free(handle);
	}
}

static void disk_close(struct media *media)
{
	struct disk_handle *handle = container_of(media, struct disk_handle, media);

	CHECK(handle->under_way == 0);
	if (handle->process)
		sim_process_remove_mourner(&handle->mourner);
	list_remove(&handle->node);
	free(handle); /* media_close frees the spec */
}

static void handle_dead(struct sim_mourner *mourner, struct sim_process *process,
			enum sim_death how)
{
	struct disk_handle *handle = container_of(mourner, struct disk_handle, mourner);
	struct sim_disk *disk = handle->disk;

	handle->is_dead = true;
	/* The spec may be memory of the process, which is freed next. */
	free(handle->media.spec);
	handle->media.spec = NULL;
	disk_ops_orphan(handle);
	if (disk->has_fence && disk->fence_owner == process)
		disk->has_fence = false;
	sim_trace(disk->sim, "disk %s: %s is gone, %u operations of it are under way", disk->name,
		  sim_process_name(process), handle->under_way);
}

/* Checks the locks: 0 or -EBUSY. Operations that dead processes left end first. */
static int disk_claim(struct sim_disk *disk, int member)
{
	list_for_each(node, &disk->handles) {
		struct disk_handle *handle = list_entry(node, struct disk_handle, node);
		bool is_mine = member < 0 || handle->member < 0 || handle->member == member;

		if (!is_mine)
			continue;
		if (!handle->is_dead)
			return -EBUSY;
		disk_ops_settle(handle);
	}
	disk_handles_reap(disk);
	return 0;
}

int disk_settle_member(struct sim_disk *disk, int member)
{
	list_for_each(node, &disk->handles) {
		struct disk_handle *handle = list_entry(node, struct disk_handle, node);

		if (handle->member != member)
			continue;
		if (!handle->is_dead)
			return -EWOULDBLOCK;
		disk_ops_settle(handle);
	}
	disk_handles_reap(disk);
	return 0;
}

static int disk_grow(struct sim_disk *disk, struct disk_handle *handle, uint64_t block_count)
{
	if (block_count > disk->options.block_count_max)
		return -ENOSPC;
	if (block_count > disk->block_count) {
		if (!sim_process_operate(handle->process))
			return -EIO;
		handle->grown_from = disk->block_count;
		disk->block_count = block_count;
	}
	return 0;
}

/* Sets all of the medium except the spec, which must come from malloc. */
static int handle_open(struct sim_disk *disk, const struct disk_wish *wish,
		       struct media **ret_media)
{
	struct disk_handle *handle;
	int res;

	if (wish->block_bytes != 0 && wish->block_bytes != disk->options.block_bytes &&
	    (!disk->options.takes_multiples || wish->block_bytes % disk->options.block_bytes != 0))
		return -EINVAL;
	res = wish->is_reopen ? 0 : disk_claim(disk, wish->member);
	if (res < 0)
		return res;
	handle = sim_alloc(sizeof(*handle));
	handle->disk = disk;
	handle->process = sim_process_current();
	handle->member = wish->member;
	res = disk_grow(disk, handle, wish->block_count);
	if (res < 0) {
		free(handle);
		return res;
	}
	handle->media = (struct media){
		.ops = &sim_disk_ops,
		.size_bytes = (wish->block_count ? wish->block_count : disk->block_count) *
			      disk->options.block_bytes,
		.block_bytes = wish->block_bytes ? wish->block_bytes : disk->options.block_bytes,
		.buffer_align_bytes = 1,
		.has_volatile_cache = disk->options.has_volatile_cache,
		.is_read_only = wish->is_read_only,
		.can_discard = disk->options.can_discard,
		.reads_zero_after_discard =
			disk->options.can_discard && disk->options.reads_zero_after_discard,
	};
	list_push_back(&disk->handles, &handle->node);
	if (handle->process) {
		handle->mourner.dead = handle_dead;
		sim_process_add_mourner(handle->process, &handle->mourner);
	}
	*ret_media = &handle->media;
	return 0;
}

int disk_open_parsed(struct sim_disk *disk, const struct media_spec *spec, int member,
		     bool is_reopen, struct media **ret_media)
{
	const struct disk_wish wish = {
		.block_count = spec->size_bytes / disk->options.block_bytes,
		.block_bytes = spec->block_bytes,
		.member = member,
		.is_read_only = spec->is_read_only,
		.is_reopen = is_reopen,
	};

	if (spec->size_bytes % disk->options.block_bytes != 0)
		return -EINVAL;
	return handle_open(disk, &wish, ret_media);
}

static int disk_reopen(struct media *media, const struct media_spec *spec, struct media **ret_media,
		       struct media_error *ret_error)
{
	const struct disk_handle *before = container_of(media, struct disk_handle, media);
	struct media *next;
	int res;

	if (before->disk->cut_at < before->disk->block_count)
		return media_fail(ret_error, -EINVAL, "%.120s shrank while it is served",
				  spec->path);
	if (media->is_read_only && !spec->is_read_only)
		return media_fail(ret_error, -EBUSY, "%.120s was opened readonly", spec->path);
	res = disk_open_parsed(before->disk, spec, before->member, true, &next);
	if (res == 0 && next->size_bytes < media->size_bytes) {
		next->ops->close(next);
		res = -EINVAL;
	}
	if (res < 0)
		return media_fail(ret_error, res, "%.160s: %s", spec->path, strerror(-res));
	container_of(next, struct disk_handle, media)->is_another = before->is_another;
	*ret_media = next;
	return 0;
}

const struct media_ops sim_disk_ops = {
	.name = "sim_disk",
	.submit = disk_submit,
	.cancel = disk_cancel,
	.close = disk_close,
	.reopen = disk_reopen,
	.undo = disk_undo,
	.is_current = disk_is_current,
	.get_record = disk_get_record,
	.is_another = disk_is_another,
	.note_known = disk_note_known,
	.member = disk_member,
	.lock_fd = disk_lock_fd,
	.used_bytes = disk_media_used_bytes,
	.problem = disk_problem,
};

int sim_disk_open(struct sim_disk *disk, const char *spec, uint64_t block_count, int member,
		  struct media **ret_media)
{
	const char *block = strstr(spec, ",block=");
	const struct disk_wish wish = {
		.block_count = block_count,
		.block_bytes = block ? (uint32_t)strtoul(block + 7, NULL, 10) : 0,
		.member = member,
	};
	int res = handle_open(disk, &wish, ret_media);

	if (res == 0) {
		(*ret_media)->spec = sim_alloc(strlen(spec) + 1);
		memcpy((*ret_media)->spec, spec, strlen(spec));
	}
	return res;
}

/* ---- members -------------------------------------------------------------------------------- */

bool sim_disk_members_can_write(const struct sim_disk *disk, unsigned first, unsigned count)
{
	list_for_each(node, &disk->handles) {
		const struct disk_handle *handle = list_entry(node, struct disk_handle, node);

		if (handle->member >= 0 && (unsigned)handle->member - first < count &&
		    (!handle->is_dead || handle->under_way > 0))
			return true;
	}
	return false;
}

int sim_disk_fence_take(struct sim_disk *disk)
{
	struct sim_process *process = sim_process_current();

	if (disk->has_fence && disk->fence_owner != process)
		return -EAGAIN;
	disk->has_fence = true;
	disk->fence_owner = process;
	return 0;
}

void sim_disk_fence_drop(struct sim_disk *disk)
{
	if (disk->has_fence && disk->fence_owner == sim_process_current())
		disk->has_fence = false;
}

/* ---- what happens to it --------------------------------------------------------------------- */

void sim_disk_set_full(struct sim_disk *disk, bool is_full)
{
	disk->is_full = is_full;
}

void sim_disk_cut(struct sim_disk *disk, uint64_t block_count)
{
	disk->cut_at = block_count < disk->block_count ? block_count : UINT64_MAX;
}

void sim_disk_lose(struct sim_disk *disk, uint64_t blocks_left)
{
	disk->left_for = blocks_left;
}

void disk_erase_from(struct sim_disk *disk, uint64_t block)
{
	const size_t at = block * disk->options.block_bytes;
	const size_t bytes = (disk->options.block_count_max - block) * disk->options.block_bytes;

	memset(disk->blocks + at, 0, bytes);
	memset(disk->stable + at, 0, bytes);
	disk->left_for = UINT64_MAX;
}

static size_t disk_bytes(const struct sim_disk *disk)
{
	return disk->options.block_count_max * disk->options.block_bytes;
}

void disk_recreate(struct sim_disk *disk)
{
	const size_t bytes = disk_bytes(disk);

	sim_trace(disk->sim, "disk %s: made anew", disk->name);
	/* A disk recreated twice keeps what it had before the first time: the data. */
	if (disk->aside == NULL) {
		disk->aside = sim_alloc(2 * bytes + disk->options.block_count_max);
		memcpy(disk->aside, disk->blocks, bytes);
		memcpy(disk->aside + bytes, disk->stable, bytes);
		memcpy(disk->aside + 2 * bytes, disk->flags, disk->options.block_count_max);
	}
	disk_erase_from(disk, 0);
	memset(disk->flags, 0, disk->options.block_count_max);
	disk->cut_at = UINT64_MAX;
}

void disk_put_back(struct sim_disk *disk)
{
	const size_t bytes = disk_bytes(disk);

	memcpy(disk->blocks, disk->aside, bytes);
	memcpy(disk->stable, disk->aside + bytes, bytes);
	memcpy(disk->flags, disk->aside + 2 * bytes, disk->options.block_count_max);
	sim_disk_forget(disk);
}

void sim_disk_forget(struct sim_disk *disk)
{
	free(disk->aside);
	disk->aside = NULL;
}

void sim_disk_give_back(struct sim_disk *disk)
{
	if (disk->aside != NULL)
		disk_put_back(disk);
	disk->left_for = UINT64_MAX;
	disk->cut_at = UINT64_MAX;
	disk->hidden_from[0] = 0;
}

void sim_disk_hide(struct sim_disk *disk, const char *process_name)
{
	snprintf(disk->hidden_from, sizeof(disk->hidden_from), "%s", process_name);
}

void sim_disk_set_twin(struct sim_disk *disk, struct sim_disk *twin, const char *process_name)
{
	disk->twin = twin;
	snprintf(disk->twin_for, sizeof(disk->twin_for), "%s", process_name);
}

bool sim_disk_asks_for_recreate(const struct sim_disk *disk)
{
	return disk->asks_for_recreate;
}

bool sim_disk_is_whole(const struct sim_disk *disk)
{
	return disk->left_for == UINT64_MAX && disk->cut_at == UINT64_MAX && disk->aside == NULL &&
	       disk->hidden_from[0] == 0;
}

void sim_disk_heal(struct sim_disk *disk)
{
	disk->options.error_one_in = 0;
	disk->options.spike_one_in = 0;
	disk->options.misdirect_one_in = 0;
	disk->is_full = false;
	disk->cut_at = UINT64_MAX;
}

uint64_t sim_disk_misdirected(const struct sim_disk *disk)
{
	return disk->misdirected;
}

/* ---- the disk itself ------------------------------------------------------------------------ */

struct sim_disk *sim_disk_create(struct sim *sim, const struct sim_disk_options *options)
{
	struct sim_disk *disk = sim_alloc(sizeof(*disk));
	uint64_t most = options->block_count_max ? options->block_count_max : options->block_count;

	CHECK(options->block_bytes > 0 && options->block_count <= most);
	disk->sim = sim;
	disk->number = disks_made++;
	disk->options = *options;
	disk->options.block_count_max = most;
	disk->block_count = options->block_count;
	disk->cut_at = UINT64_MAX;
	disk->left_for = UINT64_MAX;
	snprintf(disk->name, sizeof(disk->name), "%s", options->name ? options->name : "disk");
	disk->options.name = disk->name;
	CHECK(sim_disk_find(disk->name) == NULL);
	prng_seed(&disk->prng, options->seed);
	disk->blocks = sim_alloc(most * options->block_bytes);
	disk->stable = sim_alloc(most * options->block_bytes);
	disk->flags = sim_alloc(most);
	list_init(&disk->ops);
	list_init(&disk->handles);
	list_push_back(&disks, &disk->node);
	return disk;
}

void sim_disk_destroy(struct sim_disk *disk)
{
	list_for_each(node, &disk->handles) {
		struct disk_handle *handle = list_entry(node, struct disk_handle, node);

		CHECK(handle->is_dead);
		disk_ops_drop(handle);
	}
	disk_handles_reap(disk);
	CHECK(list_empty(&disk->handles));
	list_remove(&disk->node);
	free(disk->blocks);
	free(disk->stable);
	free(disk->flags);
	sim_disk_forget(disk);
	free(disk);
}

uint64_t sim_disk_block_count(const struct sim_disk *disk)
{
	return disk->block_count;
}

void sim_disk_watch(struct sim_disk *disk, sim_disk_watch_fn fn, void *arg)
{
	disk->watch = fn;
	disk->watch_arg = arg;
}

const uint8_t *sim_disk_block(const struct sim_disk *disk, uint64_t block)
{
	return disk->blocks + block * disk->options.block_bytes;
}

struct sim_disk *sim_disk_find(const char *name)
{
	list_for_each(node, &disks) {
		struct sim_disk *disk = list_entry(node, struct sim_disk, node);

		if (strcmp(disk->name, name) == 0)
			return disk;
	}
	return NULL;
}

struct sim_disk *sim_disk_find_number(unsigned number)
{
	list_for_each(node, &disks) {
		struct sim_disk *disk = list_entry(node, struct sim_disk, node);

		if (disk->number == number)
			return disk;
	}
	return NULL;
}
