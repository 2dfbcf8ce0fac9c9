/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces that were removed and whose data are still there: in which file or device, and since
 * when. What is kept of them beside the document (reservations with PTPL, blocks marked bad:
 * ns/ns_live.h) stays in the store under their UUID, and is theirs again when they come back
 * with the same UUID and file: a rollback must not let in a host that was fenced. The file is known
 * by what it is (struct media_record), not by its name: hosts that know the UUID must not find
 * another file's data under it, so any other file is refused until the operator drops the entry.
 *
 * An entry is dropped when the data are given up (the file is deleted, or is another namespace's
 * since), when the namespace has not come back after REMOVED_NS_DAYS, or when more than
 * REMOVED_NS_MAX were removed after it: namespaces of which something is kept and those of which
 * nothing is are counted apart.
 *
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
	uint64_t since_s;
	unsigned kept; /* of ns_live_kept */
	struct media_record record;
	char path[];
};

/* Empty. 0 or -ENOMEM. */
int removed_list_create(struct removed_list **ret_list);
void removed_list_destroy(struct removed_list *list);
/* What the keeper has. Lines that make no sense are left out. 0 or -errno. */
int removed_list_recall(struct removed_list *list, const struct keeper *keeper);

/* NULL: it is not in the list. */
const struct removed_ns *removed_find(const struct removed_list *list, const struct uuid *uuid);
/*
 * Whether the namespace may be served from this: `now` is the file or device, of the given name.
 * path NULL: it is no file. now NULL: the name is looked up. 0, also when the namespace is not in
 * the list; or -EUCLEAN with ret_error filled.
 */
int removed_check(const struct removed_list *list, const struct uuid *uuid, const char *path,
		  const struct media_record *now, struct media_error *ret_error);

/* How many there are of which something is kept. */
unsigned removed_kept_count(const struct removed_list *list);
/* The first one, not `owner`, that was in this file and of which something is kept; NULL: none. */
const struct removed_ns *removed_find_kept_in(const struct removed_list *list, const char *path,
					      const struct media_record *record,
					      const struct uuid *owner);

/* The namespace was removed; its data stay in the file. What fails is logged by removed_keep. */
void removed_add(struct removed_list *list, const struct removed_ns *about, const char *path);
/* It is there again: what is kept of it stays. */
void removed_take_back(struct removed_list *list, const struct uuid *uuid);
/* The same of all that are. */
void removed_take_back_all(struct removed_list *list,
			   bool (*is_back)(void *arg, const struct uuid *uuid), void *arg);
/* The file is that of the namespace `owner` now: entries of others that were in it are dropped. */
void removed_drop_file(struct removed_list *list, const char *path,
		       const struct media_record *record, const struct uuid *owner,
		       const struct keeper *keeper);
/* It does not come back, for the reason given. 0; -ENOENT: it is not in the list; or another
 * -errno. */
int removed_drop(struct removed_list *list, const struct uuid *uuid, const char *why,
		 const struct keeper *keeper);
/* Those of which something is kept first; of each kind, oldest first. */
void removed_each(const struct removed_list *list,
		  void (*look)(void *arg, const struct removed_ns *removed), void *arg);
/* Drops those that are too old or too many, but for those that are in use: what is lost and in
 * force, or comes back with the change under way, has what is kept of it. */
void removed_age(struct removed_list *list, const struct keeper *keeper, uint64_t now_s,
		 bool (*is_in_use)(void *arg, const struct uuid *uuid), void *arg);
/* Writes the list down when it has changed. */
void removed_keep(struct removed_list *list, const struct keeper *keeper);
/* The keeper took it and lost it again: the next removed_keep writes it. */
void removed_set_unkept(struct removed_list *list);

#endif
