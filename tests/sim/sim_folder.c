/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of files in memory that outlive processes and lose unsynced data when the power goes. One
 * thread; see sim_store_private.h for what is kept.
 *
 * File systems write names back in order: after a loss the folder is as it was at some moment since
 * its last sync. Bytes are written back sector by sector. A lost sector has its stable content, or
 * zeroes where the file was shorter in between.
 */
#include "sim_store_private.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct list folders = {&folders, &folders};
static struct prng random_prng;

/* ---- inodes --------------------------------------------------------------------------------- */

struct sim_inode *inode_create(struct sim_folder *folder)
{
	struct sim_inode *inode = sim_alloc(sizeof(*inode));

	inode->folder = folder;
	list_init(&inode->files);
	list_init(&inode->node);
	if (folder)
		list_push_back(&folder->inodes, &inode->node);
	return inode;
}

void inode_free(struct sim_inode *inode)
{
	for (unsigned i = 0; i < inode->region_count; i++)
		free(inode->regions[i]);
	free(inode->regions);
	free(inode->bytes);
	free(inode->stable);
	free(inode->dirty);
	list_remove(&inode->node);
	free(inode);
}

static uint8_t *zeroed_grow(uint8_t *bytes, size_t from_bytes, size_t to_bytes)
{
	bytes = sim_realloc(bytes, to_bytes);
	memset(bytes + from_bytes, 0, to_bytes - from_bytes);
	return bytes;
}

static void inode_reserve(struct sim_inode *inode, size_t size_bytes)
{
	size_t room = inode->room_bytes ? inode->room_bytes : 16 * SECTOR_BYTES;

	while (room < size_bytes)
		room *= 2;
	if (room == inode->room_bytes)
		return;
	inode->bytes = zeroed_grow(inode->bytes, inode->room_bytes, room);
	inode->stable = zeroed_grow(inode->stable, inode->room_bytes, room);
	inode->dirty =
		zeroed_grow(inode->dirty, inode->room_bytes / SECTOR_BYTES, room / SECTOR_BYTES);
	inode->room_bytes = room;
}

/* 0, or the error of a write or sync in this folder. */
static int folder_fault(struct sim_folder *folder, bool is_write)
{
	if (folder == NULL)
		return 0;
	if (!sim_process_operate(sim_process_current()))
		return -EIO;
	if (is_write && folder->is_full)
		return -ENOSPC;
	if (folder->error_one_in > 0 && prng_one_in(&folder->prng, folder->error_one_in))
		return -EREMOTEIO;
	return 0;
}

static void inode_put(struct sim_inode *inode, size_t offset, const void *bytes, size_t len_bytes)
{
	size_t end = offset + len_bytes;

	if (len_bytes == 0)
		return;
	inode_reserve(inode, end);
	memcpy(inode->bytes + offset, bytes, len_bytes);
	for (size_t i = offset / SECTOR_BYTES; i <= (end - 1) / SECTOR_BYTES; i++)
		inode->dirty[i] = 1;
	if (end > inode->size_bytes)
		inode->size_bytes = end;
}

int inode_write(struct sim_inode *inode, size_t offset, const void *bytes, size_t len_bytes)
{
	int res = folder_fault(inode->folder, true);

	/* A write that fails with an I/O error has written a part. */
	if (res == -EREMOTEIO) {
		inode_put(inode, offset, bytes,
			  (size_t)prng_below(&inode->folder->prng, len_bytes + 1));
		return -EIO;
	}
	if (res == 0)
		inode_put(inode, offset, bytes, len_bytes);
	return res;
}

int inode_truncate(struct sim_inode *inode, size_t size_bytes)
{
	int res = folder_fault(inode->folder, false);

	if (res < 0)
		return -EIO;
	inode_reserve(inode, size_bytes);
	if (size_bytes < inode->size_bytes)
		memset(inode->bytes + size_bytes, 0, inode->size_bytes - size_bytes);
	for (size_t i = size_bytes / SECTOR_BYTES; i * SECTOR_BYTES < inode->size_bytes; i++)
		inode->dirty[i] = 1;
	inode->size_bytes = size_bytes;
	if (size_bytes < inode->least_bytes)
		inode->least_bytes = size_bytes;
	return 0;
}

static void inode_settle(struct sim_inode *inode)
{
	size_t sectors = inode->room_bytes / SECTOR_BYTES;

	for (size_t i = 0; i < sectors; i++) {
		if (!inode->dirty[i])
			continue;
		memcpy(inode->stable + i * SECTOR_BYTES, inode->bytes + i * SECTOR_BYTES,
		       SECTOR_BYTES);
		inode->dirty[i] = 0;
	}
	inode->stable_bytes = inode->size_bytes;
	inode->least_bytes = inode->size_bytes;
}

int inode_sync(struct sim_inode *inode)
{
	int res = folder_fault(inode->folder, false);

	if (res < 0)
		return -EIO;
	inode_settle(inode);
	return 0;
}

/* Size after a power loss: the stable size, the current size, or between them. */
static size_t size_after_loss(struct sim_inode *inode, struct prng *prng)
{
	size_t from = inode->stable_bytes, grown;

	if (prng_one_in(prng, 2))
		return inode->size_bytes;
	if (inode->size_bytes <= from)
		return from;
	grown = prng_below(prng, (inode->size_bytes - from) / SECTOR_BYTES + 1) * SECTOR_BYTES;
	return from + grown;
}

static void inode_lose(struct sim_inode *inode, struct prng *prng)
{
	size_t size_bytes = size_after_loss(inode, prng);
	/* A truncation that survives also drops the stable bytes behind it. */
	bool is_cut_kept =
		inode->least_bytes < inode->stable_bytes && size_bytes != inode->stable_bytes;

	if (is_cut_kept)
		memset(inode->stable + inode->least_bytes, 0,
		       inode->stable_bytes - inode->least_bytes);
	for (size_t i = 0; i < inode->room_bytes / SECTOR_BYTES; i++) {
		size_t at = i * SECTOR_BYTES;

		if (inode->dirty[i] && prng_one_in(prng, 2))
			memcpy(inode->bytes + at, inode->stable + at, SECTOR_BYTES);
	}
	if (size_bytes < inode->room_bytes)
		memset(inode->bytes + size_bytes, 0, inode->room_bytes - size_bytes);
	for (size_t i = size_bytes / SECTOR_BYTES; i < inode->room_bytes / SECTOR_BYTES; i++)
		inode->dirty[i] = 1;
	inode->size_bytes = size_bytes;
	inode_settle(inode);
}

/* ---- names ---------------------------------------------------------------------------------- */

struct sim_folder *folder_of_path(const char *path, const char **ret_name)
{
	list_for_each(node, &folders) {
		struct sim_folder *folder = list_entry(node, struct sim_folder, node);
		size_t len = strlen(folder->path);

		if (strncmp(path, folder->path, len) != 0 || (path[len] != '/' && path[len]))
			continue;
		*ret_name = path[len] ? path + len + 1 : "";
		return folder;
	}
	return NULL;
}

static unsigned name_at(const struct sim_folder *folder, const char *name)
{
	unsigned at = 0;

	while (at < folder->names.count && strcmp(folder->names.names[at].name, name) != 0)
		at++;
	return at;
}

struct sim_inode *folder_find(const struct sim_folder *folder, const char *name)
{
	unsigned at = name_at(folder, name);

	return at < folder->names.count ? folder->names.names[at].inode : NULL;
}

static bool names_have(const struct sim_names *names, const struct sim_inode *inode)
{
	for (unsigned i = 0; i < names->count; i++) {
		if (names->names[i].inode == inode)
			return true;
	}
	return false;
}

static void inodes_sweep(struct sim_folder *folder)
{
	list_for_each_safe(node, &folder->inodes) {
		struct sim_inode *inode = list_entry(node, struct sim_inode, node);
		bool is_used = !list_empty(&inode->files) || names_have(&folder->names, inode);

		for (unsigned i = 0; i < folder->before_count; i++)
			is_used |= names_have(&folder->before[i], inode);
		if (!is_used)
			inode_free(inode);
	}
}

/* Call before each change: the former names may be what remains after a loss. */
static void names_remember(struct sim_folder *folder)
{
	size_t bytes = (folder->before_count + 1) * sizeof(*folder->before);

	folder->before = sim_realloc(folder->before, bytes);
	folder->before[folder->before_count++] = folder->names;
}

static void name_put(struct sim_folder *folder, const char *name, struct sim_inode *inode)
{
	unsigned at = name_at(folder, name);

	if (at == folder->names.count) {
		CHECK(at < FOLDER_NAMES_MAX && strlen(name) < FOLDER_NAME_BYTES);
		folder->names.count++;
		snprintf(folder->names.names[at].name, FOLDER_NAME_BYTES, "%s", name);
	}
	folder->names.names[at].inode = inode;
}

static void name_remove(struct sim_folder *folder, const char *name)
{
	unsigned at = name_at(folder, name);

	folder->names.names[at] = folder->names.names[--folder->names.count];
}

int folder_create(struct sim_folder *folder, const char *name, struct sim_inode **ret_inode)
{
	int res = folder_fault(folder, true);

	if (res < 0)
		return res == -EREMOTEIO ? -EIO : res;
	names_remember(folder);
	*ret_inode = inode_create(folder);
	name_put(folder, name, *ret_inode);
	return 0;
}

int folder_unlink(struct sim_folder *folder, const char *name)
{
	if (folder_find(folder, name) == NULL)
		return -ENOENT;
	if (folder_fault(folder, false) < 0)
		return -EIO;
	names_remember(folder);
	name_remove(folder, name);
	return 0;
}

int folder_rename(struct sim_folder *folder, const char *from, const char *to)
{
	struct sim_inode *inode = folder_find(folder, from);

	if (inode == NULL)
		return -ENOENT;
	if (folder_fault(folder, false) < 0)
		return -EIO;
	names_remember(folder);
	name_remove(folder, from);
	name_put(folder, to, inode);
	return 0;
}

int sim_folder_sync(struct sim_folder *folder)
{
	if (folder_fault(folder, false) < 0)
		return -EIO;
	folder->before_count = 0;
	inodes_sweep(folder);
	return 0;
}

/* ---- folders -------------------------------------------------------------------------------- */

struct sim_folder *sim_folder_create(struct sim *sim, const char *path, uint64_t seed)
{
	struct sim_folder *folder = sim_alloc(sizeof(*folder));

	if (list_empty(&folders)) {
		prng_seed(&random_prng, seed);
		sqlite3_randomness(0, NULL); /* the next use takes its seed from random_prng */
	}
	folder->sim = sim;
	CHECK(strlen(path) < sizeof(folder->path));
	snprintf(folder->path, sizeof(folder->path), "%s", path);
	prng_seed(&folder->prng, seed);
	list_init(&folder->inodes);
	list_push_back(&folders, &folder->node);
	return folder;
}

void sim_folder_destroy(struct sim_folder *folder)
{
	list_for_each_safe(node, &folder->inodes) {
		struct sim_inode *inode = list_entry(node, struct sim_inode, node);

		CHECK(list_empty(&inode->files));
		inode_free(inode);
	}
	list_remove(&folder->node);
	free(folder->before);
	free(folder);
}

void sim_folder_power_loss(struct sim_folder *folder)
{
	unsigned at = (unsigned)prng_below(&folder->prng, folder->before_count + 1);

	sim_trace(folder->sim, "folder %s loses its power: %u changes of names of %u are kept",
		  folder->path, at, folder->before_count);
	if (at < folder->before_count)
		folder->names = folder->before[at];
	folder->before_count = 0;
	list_for_each(node, &folder->inodes)
		inode_lose(list_entry(node, struct sim_inode, node), &folder->prng);
	inodes_sweep(folder);
}

void sim_folder_set_full(struct sim_folder *folder, bool is_full)
{
	folder->is_full = is_full;
}

void sim_folder_set_errors(struct sim_folder *folder, uint32_t one_in)
{
	folder->error_one_in = one_in;
}

/* ---- backups -------------------------------------------------------------------------------- */

/* The files, one after the other. */
struct sim_backup {
	unsigned count;
	struct {
		char name[FOLDER_NAME_BYTES];
		size_t size_bytes;
	} files[FOLDER_NAMES_MAX];
	uint8_t bytes[];
};

static struct sim_backup *backup_make(const struct sim_folder *folder, const char *only)
{
	const struct sim_names *names = &folder->names;
	struct sim_backup *backup;
	size_t total = 0;

	for (unsigned i = 0; i < names->count; i++)
		total += names->names[i].inode->size_bytes;
	backup = sim_alloc(sizeof(*backup) + total);
	total = 0;
	for (unsigned i = 0; i < names->count; i++) {
		const struct sim_inode *inode = names->names[i].inode;

		if (only && strcmp(names->names[i].name, only) != 0)
			continue;
		snprintf(backup->files[backup->count].name, FOLDER_NAME_BYTES, "%s",
			 names->names[i].name);
		backup->files[backup->count++].size_bytes = inode->size_bytes;
		if (inode->size_bytes > 0)
			memcpy(backup->bytes + total, inode->bytes, inode->size_bytes);
		total += inode->size_bytes;
	}
	return backup;
}

struct sim_backup *sim_folder_backup(const struct sim_folder *folder)
{
	return backup_make(folder, NULL);
}

struct sim_backup *sim_folder_backup_file(const struct sim_folder *folder, const char *name,
					  const char *put_back_as)
{
	struct sim_backup *backup;

	if (folder_find(folder, name) == NULL)
		return NULL;
	backup = backup_make(folder, name);
	snprintf(backup->files[0].name, FOLDER_NAME_BYTES, "%s", put_back_as);
	return backup;
}

void sim_folder_restore(struct sim_folder *folder, const struct sim_backup *backup)
{
	size_t at = 0;

	folder->names.count = 0;
	folder->before_count = 0;
	inodes_sweep(folder);
	CHECK(list_empty(&folder->inodes));
	for (unsigned i = 0; backup && i < backup->count; i++) {
		struct sim_inode *inode = inode_create(folder);

		name_put(folder, backup->files[i].name, inode);
		inode_put(inode, 0, backup->bytes + at, backup->files[i].size_bytes);
		inode_settle(inode);
		at += backup->files[i].size_bytes;
	}
}

void store_random_fill(void *bytes, size_t len_bytes)
{
	prng_fill(&random_prng, bytes, len_bytes);
}
