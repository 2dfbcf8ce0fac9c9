/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removed namespaces whose data still exist: in which file or device, and since when. What is kept
 * of a namespace beside the document (reservations with PTPL, blocks marked bad: ns/ns_live.h)
 * stays in the store under its UUID. A namespace that comes back with the same UUID and file gets
 * its kept state back: a rollback must not let in a host that was fenced. The identity of a file
 * (struct media_record) counts, not its path. Hosts that know the UUID must not find another file's
 * data under it, so any other file is refused until the operator drops the entry.
 *
 * What a change adds is undone with the change (removed_rollback): no entry expires for it before,
 * and an entry that it replaces comes back.
 *
 * An entry is dropped when the data are given up (the file is deleted, or has become another
 * namespace's), after REMOVED_NS_DAYS, or when more than REMOVED_NS_MAX were removed after it.
 * Namespaces with kept state and those without are counted apart.
 *
 * The age of an entry is the time that a target ran since the removal, by the monotonic clock. The
 * wall clock may jump years ahead for a moment, and a dropped reservation cannot be restored.
 * Control thread only.
 */
#ifndef WEFT_DAEMON_REMOVED_NS_H
#define WEFT_DAEMON_REMOVED_NS_H

#include "base/list.h"
#include "media/media.h"
#include "target/target.h"

#define REMOVED_NS_MAX  1024
#define REMOVED_NS_DAYS 90

struct removed_list;

struct removed_ns {
	struct list node;
	struct uuid uuid;
	uint64_t since_s;  /* wall clock, for the operator */
	uint64_t age_s;    /* how long a target ran since the removal */
	uint64_t looked_s; /* monotonic time up to which age_s counts */
	unsigned kept;     /* as ns_live_kept */
	bool is_new;       /* added by the change under way */
	bool is_replaced; /* by a new entry of the same UUID; counts again after removed_rollback */
	struct media_record record;
	char path[];
};

/* Creates an empty list. now_s: monotonic; the ages of recalled entries count from there. 0 or
 * -ENOMEM. */
int removed_list_create(uint64_t now_s, struct removed_list **ret_list);
void removed_list_destroy(struct removed_list *list);
/* Reads the list from the keeper. Lines that cannot be read are left out. 0 or -errno. */
int removed_list_recall(struct removed_list *list, const struct keeper *keeper);

/* NULL: not in the list. */
const struct removed_ns *removed_find(const struct removed_list *list, const struct uuid *uuid);
/*
 * Whether the namespace may be served from `now`, the file or device at `path`. path NULL: the
 * medium is not a file. now NULL: the path is looked up. 0, also when the namespace is not in the
 * list; or -EUCLEAN with ret_error filled.
 */
int removed_check(const struct removed_list *list, const struct uuid *uuid, const char *path,
		  const struct media_record *now, struct media_error *ret_error);

/* The number of entries with kept state. */
unsigned removed_kept_count(const struct removed_list *list);
/* Whether a namespace other than `owner` was in this file. */
bool removed_has_file(const struct removed_list *list, const char *path,
		      const struct media_record *record, const struct uuid *owner);
/* The first entry with kept state that was in this file and is not `owner`; NULL: none. */
const struct removed_ns *removed_find_kept_in(const struct removed_list *list, const char *path,
					      const struct media_record *record,
					      const struct uuid *owner);

/* Adds a removed namespace whose data stay in the file. A failure is logged. The entry stays new
 * until one of the next two functions is called. */
void removed_add(struct removed_list *list, const struct removed_ns *about, const char *path);
/* The change is kept, and so are the new entries. */
void removed_commit(struct removed_list *list);
/* The change is undone: removes the new entries, and brings back those that they replaced. */
void removed_rollback(struct removed_list *list);
/* The namespace is back: removes its entry. What is kept of the namespace stays. */
void removed_take_back(struct removed_list *list, const struct uuid *uuid);
/* As removed_take_back, for all namespaces that are back. */
void removed_take_back_all(struct removed_list *list,
			   bool (*is_back)(void *arg, const struct uuid *uuid), void *arg);
/* The file now belongs to the namespace `owner`: drops entries of other namespaces that were in
 * it. */
void removed_drop_file(struct removed_list *list, const char *path,
		       const struct media_record *record, const struct uuid *owner,
		       const struct keeper *keeper);
/* Drops a namespace that does not come back, for the given reason. 0; -ENOENT: not in the list; or
 * another -errno. */
int removed_drop(struct removed_list *list, const struct uuid *uuid, const char *why,
		 const struct keeper *keeper);
/* Entries with kept state come first; each kind has the oldest first. */
void removed_each(const struct removed_list *list,
		  void (*look)(void *arg, const struct removed_ns *removed), void *arg);
/* Adds the time since the previous call to every age. now_s: monotonic. is_end: the process ends,
 * and removed_keep saves the ages of this moment. */
void removed_age(struct removed_list *list, uint64_t now_s, bool is_end);
/* Drops entries that are too old or too many, except those in use: a namespace that is lost and in
 * force, or comes back with the change under way, keeps its state. Nothing expires while the list
 * has new entries. */
void removed_expire(struct removed_list *list, const struct keeper *keeper,
		    bool (*is_in_use)(void *arg, const struct uuid *uuid), void *arg);
/* Keeps the list if it has changed. */
void removed_keep(struct removed_list *list, const struct keeper *keeper);
/* The keeper lost what it had accepted: the next removed_keep writes the list again. */
void removed_set_unkept(struct removed_list *list);

#endif
