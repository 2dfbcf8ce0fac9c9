/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rule for which file or device may be served under a UUID: the one that was served last under
 * it. Hosts identify data by the UUID, so another file, even an empty or a copied one, must not
 * take its place. The rule holds for every way to a new configuration: a change, a rollback,
 * SIGHUP, and a start with another document.
 *
 * What was served last is known of removed namespaces (daemon/removed_ns.h), of namespaces in
 * force, and at a start of the namespaces in the saved document. A file is recognised by its
 * identity (struct media_record), so a renamed or hard-linked file is the same one. Memory has no
 * file, and the rule does not bind it. Which file a namespace has at its unchanged path is decided
 * when the path is opened (daemon/medium_open.h).
 *
 * Control thread only; looking at files may block. Private to daemon/.
 */
#ifndef WEFT_DAEMON_SERVED_FILES_H
#define WEFT_DAEMON_SERVED_FILES_H

#include "daemon/media_registry_private.h"

/*
 * Whether the namespace may be served from `now`, the file or device at `path`. path NULL: the
 * medium is not a file. now NULL: the path is looked up. 0, or -EUCLEAN with ret_error filled.
 */
int served_file_check(const struct media_registry *registry, const struct uuid *uuid,
		      const char *path, const struct media_record *now,
		      struct media_error *ret_error);
/* Whether the namespace has this path in force, or at a start in the saved document. */
bool served_file_is_at(const struct media_registry *registry, const struct uuid *uuid,
		       const char *path);
/* Whether the namespace in force has a medium of exactly this spec. */
bool served_file_has_spec(const struct media_registry *registry, const struct uuid *uuid,
			  const char *spec);

/*
 * The file of the namespace of this entry. A withheld namespace was never served from the open
 * file: its file is the one that was served last, or, if that is unknown, any file at the path. The
 * caller frees *ret_path; NULL: no memory.
 */
void served_file_of_entry(const struct media_registry *registry, const struct backing_entry *entry,
			  struct media_record *ret_record, char **ret_path);
/* The file of a namespace of the saved document. The caller frees *ret_path; NULL: no memory. */
void served_file_of_expected(const struct media_registry *registry,
			     const struct media_expected *expected, struct media_record *ret_record,
			     char **ret_path);

#endif
