/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces of a subsystem as every thread may see them: a table under a lock, filled by the
 * reactors when something changes. Requests read a namespace's size without the lock. An entry
 * stays until the subsystem is closed, so a handle never points at nothing.
 */
#include "lib/lib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Index of the first entry that is not below nsid. Under the lock. */
static unsigned ns_place(const struct weft_subsystem *subsystem, uint32_t nsid)
{
	unsigned low = 0, high = subsystem->ns_count;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;

		if (subsystem->nss[middle]->nsid < nsid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The entry, made when it is not there; NULL: out of memory. Under the lock. */
static struct lib_ns *ns_get(struct weft_subsystem *subsystem, uint32_t nsid)
{
	unsigned place = ns_place(subsystem, nsid);
	struct lib_ns **nss;
	struct lib_ns *ns;

	if (place < subsystem->ns_count && subsystem->nss[place]->nsid == nsid)
		return subsystem->nss[place];
	ns = calloc(1, sizeof(*ns));
	nss = realloc(subsystem->nss, (subsystem->ns_count + 1) * sizeof(struct lib_ns *));
	if (nss != NULL)
		subsystem->nss = nss;
	if (ns == NULL || nss == NULL) {
		free(ns);
		return NULL;
	}
	memmove(&nss[place + 1], &nss[place],
		(subsystem->ns_count - place) * sizeof(struct lib_ns *));
	nss[place] = ns;
	subsystem->ns_count++;
	ns->nsid = nsid;
	return ns;
}

void lib_ns_update(struct weft_subsystem *subsystem, const struct ns_info *info)
{
	struct lib_ns *ns;

	pthread_mutex_lock(&subsystem->ns_lock);
	ns = ns_get(subsystem, info->nsid);
	/* Without memory it is not listed until it changes again. */
	if (ns != NULL) {
		ns->info = *info;
		atomic_store(&ns->block_bytes, info->identity.block_bytes);
		atomic_store(&ns->block_count, info->identity.block_count);
	}
	pthread_mutex_unlock(&subsystem->ns_lock);
}

void lib_ns_free_all(struct weft_subsystem *subsystem)
{
	for (unsigned i = 0; i < subsystem->ns_count; i++)
		free(subsystem->nss[i]);
	free(subsystem->nss);
}

int weft_ns_list(struct weft_subsystem *subsystem, uint32_t *nsids, unsigned max)
{
	unsigned count = 0;

	pthread_mutex_lock(&subsystem->ns_lock);
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		if (subsystem->nss[i]->info.is_gone)
			continue;
		if (count < max)
			nsids[count] = subsystem->nss[i]->nsid;
		count++;
	}
	pthread_mutex_unlock(&subsystem->ns_lock);
	return (int)count;
}

int weft_ns_open(struct weft_subsystem *subsystem, uint32_t nsid, struct weft_ns **ret_ns,
		 struct weft_error *error)
{
	struct lib_ns *found = NULL;
	uint32_t block_bytes;
	struct weft_ns *ns;
	unsigned place;

	if (error != NULL)
		*error = (struct weft_error){0};
	pthread_mutex_lock(&subsystem->ns_lock);
	place = ns_place(subsystem, nsid);
	if (place < subsystem->ns_count && subsystem->nss[place]->nsid == nsid &&
	    !subsystem->nss[place]->info.is_gone)
		found = subsystem->nss[place];
	block_bytes = found != NULL ? found->info.identity.block_bytes : 0;
	pthread_mutex_unlock(&subsystem->ns_lock);
	if (found == NULL)
		return lib_fail(error, -ENOENT,
				"%s has no namespace %u for this host; weft_ns_list tells which "
				"there are",
				subsystem->config.subsystem_nqn, nsid);
	ns = calloc(1, sizeof(*ns) + subsystem->part_count * sizeof(struct mpath_ns *));
	if (ns == NULL)
		return lib_fail(error, -ENOMEM, "out of memory");
	ns->subsystem = subsystem;
	ns->ns = found;
	ns->block_bytes = block_bytes;
	*ret_ns = ns;
	return 0;
}

void weft_ns_close(struct weft_ns *ns)
{
	free(ns);
}

static void info_fill(const struct weft_ns *ns, struct weft_ns_info *to)
{
	const struct weft_subsystem *subsystem = ns->subsystem;
	const struct ns_identity *identity = &ns->ns->info.identity;

	*to = (struct weft_ns_info){
		.nsid = ns->ns->nsid,
		.block_bytes = identity->block_bytes,
		.block_count = identity->block_count,
		.transfer_max_bytes = subsystem->limits.transfer_max_bytes,
		.is_read_only = identity->is_write_protected,
		.is_shared = identity->is_shared,
		.compare_write_blocks_max = identity->atomic_compare_write_blocks != 0
						    ? identity->atomic_compare_write_blocks
						    : subsystem->limits.compare_write_blocks,
		.is_gone = ns->ns->info.is_gone,
	};
	memcpy(to->uuid, identity->uuid.bytes, sizeof(to->uuid));
	memcpy(to->nguid, identity->nguid, sizeof(to->nguid));
	if (subsystem->limits.has_copy && identity->copy_range_blocks_max != 0) {
		to->copy_ranges_max = identity->copy_ranges_max;
		to->copy_range_blocks_max = identity->copy_range_blocks_max;
		to->copy_blocks_max = identity->copy_blocks_max;
	}
}

int weft_ns_info(struct weft_ns *ns, struct weft_ns_info *ret_info)
{
	struct weft_subsystem *subsystem = ns->subsystem;
	size_t bytes = ret_info->size;
	struct weft_ns_info info;
	bool is_stale;

	if (bytes < sizeof(size_t))
		return -EINVAL;
	pthread_mutex_lock(&subsystem->ns_lock);
	info_fill(ns, &info);
	is_stale = !info.is_gone && info.block_bytes != ns->block_bytes;
	pthread_mutex_unlock(&subsystem->ns_lock);
	if (is_stale)
		return -ESTALE;
	info.size = bytes;
	memcpy(ret_info, &info, bytes < sizeof(info) ? bytes : sizeof(info));
	return 0;
}
