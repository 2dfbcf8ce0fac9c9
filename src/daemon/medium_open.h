/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The medium that a namespace gets when the data served before may be missing: see
 * daemon/medium_open.c. All return 0 or -errno with ret_error filled.
 */
#ifndef WEFT_DAEMON_MEDIUM_OPEN_H
#define WEFT_DAEMON_MEDIUM_OPEN_H

#include "daemon/media_registry.h"

/* Lost when it was opened, or cut or gone while it was served. Looks at it. */
bool medium_has_failed(struct media *media);

/* `known`: what the store knows of the file. NULL: no data were served from it. A lost file gets a
 * medium that stands for it. */
int medium_open(const struct media_wish *wish, const struct media_record *known,
		struct media **ret_media, struct media_error *ret_error);
/* A medium that stands for one that is lost as ret_error says, which is logged. */
int medium_open_lost(const struct media_wish *wish, const struct media_record *record,
		     struct media **ret_media, struct media_error *ret_error);
/* Keeps that the data of a lost medium are given up, before medium_retry makes an empty file. */
int medium_give_up(const struct media_wish *wish, struct media *lost, const char *path,
		   const struct keeper *keeper, struct media_error *ret_error);
/* A lost medium again. `is_recreated`: a missing file is made anew and empty. */
int medium_retry(const struct media_wish *wish, struct media *lost, bool is_recreated,
		 struct media **ret_media, struct media_error *ret_error);
/* What the name leads to now, in place of a file that other members do not have. */
int medium_open_name(const struct media_wish *wish, struct media *refused, struct media **ret_media,
		     struct media_error *ret_error);
/* A medium that failed while it was served, again. */
int medium_recheck(const struct media_wish *wish, struct media *failed, struct media **ret_media,
		   struct media_error *ret_error);

#endif
