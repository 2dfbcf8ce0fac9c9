/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces that were removed and whose data are still there: in which file, and since when. What
 * is kept of them beside the document (reservations with PTPL, blocks marked bad: target/ns_live.h)
 * stays in the store under their UUID, and is theirs again when they come back with the same UUID
 * and file: a rollback must not let in a host that was fenced. It is dropped when the data are
 * given up (the file is deleted, or is another namespace's since, or the UUID has another one), and
 * of those that do not come back after REMOVED_NS_DAYS, or when more than REMOVED_NS_MAX are known.
 *
 * Control thread only.
 */
#ifndef WEFT_DAEMON_REMOVED_NS_H
#define WEFT_DAEMON_REMOVED_NS_H

#include "target/target.h"

#define REMOVED_NS_MAX  1024
#define REMOVED_NS_DAYS 90

struct removed_list;

/* Empty. 0 or -ENOMEM. */
int removed_list_create(struct removed_list **ret_list);
void removed_list_destroy(struct removed_list *list);
/* What the keeper has. Lines that make no sense are left out. 0 or -errno. */
int removed_list_recall(struct removed_list *list, const struct target_keeper *keeper);

/* Whether the namespace was removed from another file than `path`, which may be NULL: none. */
bool removed_is_elsewhere(const struct removed_list *list, const struct uuid *uuid,
			  const char *path);
/* The namespace was removed; its data stay in the file. What fails is logged by removed_keep. */
void removed_add(struct removed_list *list, const struct uuid *uuid, const char *path,
		 uint64_t now_s);
/* It is there again. */
void removed_take_back(struct removed_list *list, const struct uuid *uuid);
/* The file is gone, or is that of the namespace `owner` now (NULL: nobody's): what was kept of
 * others that were in it is dropped. */
void removed_drop_path(struct removed_list *list, const char *path, const struct uuid *owner,
		       const struct target_keeper *keeper);
/* The operator does not want it back. 0; -ENOENT: it is not in the list; or another -errno. */
int removed_drop(struct removed_list *list, const struct uuid *uuid,
		 const struct target_keeper *keeper);
/* Oldest first. */
void removed_each(const struct removed_list *list,
		  void (*look)(void *arg, const struct uuid *uuid, const char *path,
			       uint64_t since_s),
		  void *arg);
/* Drops those that are too old, and writes the list down when it has changed. */
void removed_keep(struct removed_list *list, const struct target_keeper *keeper, uint64_t now_s);
/* The keeper took it and lost it again: the next removed_keep writes it. */
void removed_set_unkept(struct removed_list *list);

#endif
