/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the state store knows of the files and devices that namespaces were served from: size, block
 * size, type and which file it was. A start neither makes nor grows one of them (media/media.h,
 * struct media_terms). Control thread only; private to daemon/.
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
int media_records_expect(struct media_records *records, const struct target_keeper *keeper,
			 const json_t *document);
/* NULL: nothing was served from it. */
const struct media_record *media_records_find(const struct media_records *records,
					      const char *path);
void media_records_clear(struct media_records *records);

/* Keeps what is known of the medium under its path, when that differs from *kept; NULL: it is no
 * longer served, and nothing is to be known of it. owner: as of media_record_give_up, NULL: that of
 * the document. What fails is logged, and tried again. */
void media_record_keep(const struct target_keeper *keeper, const char *path,
		       const struct media *media, const struct uuid *owner,
		       struct media_record *kept);

/*
 * From now on the file under this path is that of the namespace `uuid`, which is about to be kept,
 * and of no other one: to be kept before an empty file is made. A start that finds another UUID in
 * the document takes the file for lost. 0 or -errno.
 */
int media_record_give_up(const struct target_keeper *keeper, const char *path,
			 const struct media_record *record, const struct uuid *uuid);
/* The change was taken back: the record is what it was. What fails is logged. */
void media_record_take_back(const struct target_keeper *keeper, const char *path,
			    const struct media_record *record);

#endif
