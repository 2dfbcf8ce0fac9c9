/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the state store knows of the files and devices that namespaces were served from: size, block
 * size, type and file identity. Records are kept by path: a start neither creates nor grows a known
 * file (media/media.h, struct media_terms). For namespaces shared with other members of a cluster,
 * records are also kept by UUID, because hosts and members identify the data by UUID: another path,
 * or the removal of the namespace, does not make another file the one that was served last. Control
 * thread only; private to daemon/.
 */
#ifndef WEFT_DAEMON_MEDIA_RECORDS_H
#define WEFT_DAEMON_MEDIA_RECORDS_H

#include "media/media.h"
#include "target/target.h"

#include <jansson.h>

struct media_records;

int media_records_create(struct media_records **ret_records);
void media_records_destroy(struct media_records *records);
/* Expects every namespace of the document; a file with its size= or the keeper's size, whichever is
 * larger. 0 or -errno. */
int media_records_expect(struct media_records *records, const struct keeper *keeper,
			 const json_t *document);
/* NULL: no file is expected at this path. */
const struct media_record *media_records_find(const struct media_records *records,
					      const char *path);
/* The UUID of the namespace that is expected with a file at this path. NULL: none, or unknown. */
const struct uuid *media_records_owner(const struct media_records *records, const char *path);
/* NULL: the document does not have this namespace with this spec, or its store is a file. */
const struct media_record *media_records_find_pathless(const struct media_records *records,
						       const char *nqn, unsigned nsid,
						       const char *spec);
/* As media_records_find_pathless, for a store that is made of files. NULL for any other store. */
const struct media_record *media_records_find_over_files(const struct media_records *records,
							 const char *nqn, unsigned nsid,
							 const char *spec);
void media_records_clear(struct media_records *records);
/* A namespace of the document that is expected at the start, with a file. */
struct media_expected {
	struct uuid uuid;
	bool is_clustered;
	const char *path;
	bool is_kept; /* the store has a record of the path */
	struct media_record record;
};
/* False: no file of this namespace is expected. */
bool media_records_find_uuid(const struct media_records *records, const struct uuid *uuid,
			     struct media_expected *ret_expected);
void media_records_each(const struct media_records *records,
			void (*look)(void *arg, const struct media_expected *expected), void *arg);

/* Keeps the record of the medium under its path, if the record differs from *kept. media NULL: no
 * longer served, so the record is deleted. owner: as in media_record_give_up; NULL: the namespace
 * in the document. A failure is logged, and the next change tries again. */
void media_record_keep(const struct keeper *keeper, const char *path, const struct media *media,
		       const struct uuid *owner, struct media_record *kept);

/*
 * Records that the file at this path belongs to the namespace `uuid`, which is about to be kept,
 * and to no other. Must be called before an empty file is made. A start that finds another UUID in
 * the document treats the file as lost. 0 or -errno.
 */
int media_record_give_up(const struct keeper *keeper, const char *path,
			 const struct media_record *record, const struct uuid *uuid);
/* The change was taken back: restores the record. A failure is logged. 0 or -errno. */
int media_record_take_back(const struct keeper *keeper, const char *path,
			   const struct media_record *record);

/* False: the store has no record of this path. */
bool media_record_recall(const struct keeper *keeper, const char *path,
			 struct media_record *ret_record);
/* Whether both records are of one file. The path decides where a file or device cannot be told from
 * another. */
bool media_record_is_file(const struct media_record *record, const char *record_path,
			  const struct media_record *now, const char *now_path);
/* Deletes the record of a path that is no longer served. */
void media_record_forget(const struct keeper *keeper, const char *path);

/* ---- by UUID ----------------------------------------------------------------------------------
 */

/* Returns what was served last under the UUID. False: unknown. The caller frees *ret_path. */
bool media_served_recall(const struct keeper *keeper, const struct uuid *uuid,
			 struct media_record *ret_record, char **ret_path);
/* A failure is logged. 0 or -errno. */
int media_served_keep(const struct keeper *keeper, const struct uuid *uuid, const char *path,
		      const struct media_record *record);
void media_served_forget(const struct keeper *keeper, const struct uuid *uuid);

#endif
