/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the state store knows of the files and devices that namespaces were served from: size, block
 * size, type and which file it was. By path: a start neither makes nor grows one of them
 * (media/media.h, struct media_terms). Of namespaces that other members of a cluster serve too also
 * by UUID, for hosts and members know the data by that: another name, or the removal of the
 * namespace, does not make another file the one that was served last. Control thread only; private
 * to daemon/.
 */
#ifndef WEFT_DAEMON_MEDIA_RECORDS_H
#define WEFT_DAEMON_MEDIA_RECORDS_H

#include "media/media.h"
#include "target/target.h"

#include <jansson.h>

struct media_records;

int media_records_create(struct media_records **ret_records);
void media_records_destroy(struct media_records *records);
/* Every file of the document: its size=, or what the keeper has when that is more. 0 or -errno. */
int media_records_expect(struct media_records *records, const struct keeper *keeper,
			 const json_t *document);
/* NULL: nothing was served from it. */
const struct media_record *media_records_find(const struct media_records *records,
					      const char *path);
void media_records_clear(struct media_records *records);
/* A namespace of the document that is expected. */
struct media_expected {
	struct uuid uuid;
	bool is_clustered;
	const char *path;
	bool is_kept; /* the store has a record of the path */
	struct media_record record;
};
void media_records_each(const struct media_records *records,
			void (*look)(void *arg, const struct media_expected *expected), void *arg);

/* Keeps what is known of the medium under its path, when that differs from *kept; NULL: it is no
 * longer served, and nothing is to be known of it. owner: as of media_record_give_up, NULL: that of
 * the document. What fails is logged, and tried again. */
void media_record_keep(const struct keeper *keeper, const char *path, const struct media *media,
		       const struct uuid *owner, struct media_record *kept);

/*
 * From now on the file under this path is that of the namespace `uuid`, which is about to be kept,
 * and of no other one: to be kept before an empty file is made. A start that finds another UUID in
 * the document takes the file for lost. 0 or -errno.
 */
int media_record_give_up(const struct keeper *keeper, const char *path,
			 const struct media_record *record, const struct uuid *uuid);
/* The change was taken back: the record is what it was. What fails is logged. */
void media_record_take_back(const struct keeper *keeper, const char *path,
			    const struct media_record *record);

/* False: the store has no record of this path. */
bool media_record_recall(const struct keeper *keeper, const char *path,
			 struct media_record *ret_record);
/* Nothing of this name is served any more. */
void media_record_forget(const struct keeper *keeper, const char *path);

/* ---- by UUID ----------------------------------------------------------------------------------
 */

/* What was served last under the UUID. False: nothing is known of that. The caller frees *ret_path.
 */
bool media_served_recall(const struct keeper *keeper, const struct uuid *uuid,
			 struct media_record *ret_record, char **ret_path);
/* What fails is logged. 0 or -errno. */
int media_served_keep(const struct keeper *keeper, const struct uuid *uuid, const char *path,
		      const struct media_record *record);
void media_served_forget(const struct keeper *keeper, const struct uuid *uuid);

#endif
