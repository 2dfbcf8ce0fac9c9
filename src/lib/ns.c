/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces of a subsystem as all threads see them: a table under a lock, which the reactors fill
 * when a namespace changes. Requests read a namespace's size without the lock. An entry is one
 * namespace by its identity (host/join.h) and stays until the subsystem is closed, even when
 * another namespace gets its NSID. A handle's pointer therefore stays valid and always means the
 * same namespace.
 */
#include "lib/lib.h"

#include "base/sorted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Index of the first entry whose NSID is not below nsid. Call with ns_lock held. */
static unsigned ns_place(const struct weft_subsystem *subsystem, uint32_t nsid)
{
	return SORTED_PLACE(i, subsystem->ns_count, subsystem->nss[i]->nsid < nsid);
}

static struct lib_ns *ns_create(struct join_ns *joined, struct lib_ns *older)
{
	struct lib_ns *ns = calloc(1, sizeof(*ns));

	if (ns == NULL)
		return NULL;
	ns->nsid = joined->nsid;
	ns->joined = joined;
	ns->older = older;
	return ns;
}

/* Finds or creates the entry. NULL: out of memory. Call with ns_lock held. */
static struct lib_ns *ns_get(struct weft_subsystem *subsystem, struct join_ns *joined)
{
	unsigned place = ns_place(subsystem, joined->nsid);
	struct lib_ns **nss;
	struct lib_ns *ns;

	if (place < subsystem->ns_count && subsystem->nss[place]->nsid == joined->nsid) {
		struct lib_ns *now = subsystem->nss[place];

		if (now->joined == joined)
			return now;
		ns = ns_create(joined, now);
		if (ns != NULL)
			subsystem->nss[place] = ns;
		return ns;
	}
	ns = ns_create(joined, NULL);
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
	return ns;
}

void lib_ns_update(struct weft_subsystem *subsystem, const struct ns_info *info)
{
	struct lib_ns *ns = NULL;

	pthread_mutex_lock(&subsystem->ns_lock);
	/* A reactor that does not know yet that the namespace was replaced has nothing to add. When
	 * memory runs out, the namespace is missing from the list until its next change. */
	if (!join_ns_is_replaced(info->joined))
		ns = ns_get(subsystem, info->joined);
	if (ns != NULL) {
		ns->info = *info;
		atomic_store(&ns->block_bytes, info->identity.block_bytes);
		atomic_store(&ns->block_count, info->identity.block_count);
	}
	pthread_mutex_unlock(&subsystem->ns_lock);
}

void lib_ns_free_all(struct weft_subsystem *subsystem)
{
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		for (struct lib_ns *ns = subsystem->nss[i], *older; ns != NULL; ns = older) {
			older = ns->older;
			free(ns);
		}
	}
	free(subsystem->nss);
}

/* Call with ns_lock held. */
static bool ns_is_there(const struct lib_ns *ns)
{
	return !ns->info.is_gone && !join_ns_is_replaced(ns->joined);
}

int weft_ns_list(struct weft_subsystem *subsystem, uint32_t *nsids, unsigned max)
{
	unsigned count = 0;

	pthread_mutex_lock(&subsystem->ns_lock);
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		if (!ns_is_there(subsystem->nss[i]))
			continue;
		if (count < max)
			nsids[count] = subsystem->nss[i]->nsid;
		count++;
	}
	pthread_mutex_unlock(&subsystem->ns_lock);
	return (int)count;
}

static void handle_init_told(struct weft_ns *ns)
{
	ns->losses_at_open = loss_told(&ns->ns->joined->loss, &ns->untold_at_open);
	atomic_init(&ns->losses_told, ns->losses_at_open);
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
	    ns_is_there(subsystem->nss[place]))
		found = subsystem->nss[place];
	block_bytes = found != NULL ? found->info.identity.block_bytes : 0;
	pthread_mutex_unlock(&subsystem->ns_lock);
	if (found == NULL)
		return lib_fail(error, -ENOENT,
				"%s has no namespace %u for this host; check the NSID and which "
				"hosts see the namespace",
				subsystem->config.subsystem_nqn, nsid);
	ns = calloc(1, sizeof(*ns) + subsystem->part_count * sizeof(struct mpath_ns *));
	if (ns == NULL)
		return lib_fail(error, -ENOMEM, "out of memory");
	ns->subsystem = subsystem;
	ns->ns = found;
	ns->block_bytes = block_bytes;
	handle_init_told(ns);
	*ret_ns = ns;
	return 0;
}

int weft_ns_dup(const struct weft_ns *ns, struct weft_ns **ret_ns)
{
	struct weft_ns *dup =
		calloc(1, sizeof(*dup) + ns->subsystem->part_count * sizeof(struct mpath_ns *));

	if (dup == NULL)
		return -ENOMEM;
	dup->subsystem = ns->subsystem;
	dup->ns = ns->ns;
	dup->block_bytes = ns->block_bytes;
	handle_init_told(dup);
	*ret_ns = dup;
	return 0;
}

void weft_ns_repeat_loss(struct weft_ns *ns)
{
	loss_repeat(&ns->ns->joined->loss, ns->losses_at_open);
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
		.is_gone = !ns_is_there(ns->ns),
		.is_stale = join_ns_is_replaced(ns->ns->joined),
	};
	to->reports_allocated =
		subsystem->limits.has_lba_status && identity->reads_zero_after_dealloc;
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
