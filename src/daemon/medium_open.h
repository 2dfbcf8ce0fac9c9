/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the medium of a namespace when the data served before may be missing: see
 * daemon/medium_open.c. All that open or keep return 0 or -errno with ret_error filled. With
 * `openings`, -EINPROGRESS is no failure: see media_openings_open.
 */
#ifndef WEFT_DAEMON_MEDIUM_OPEN_H
#define WEFT_DAEMON_MEDIUM_OPEN_H

#include "daemon/media_openings.h"
#include "daemon/media_registry.h"

/* True: lost when opened, or cut or gone while it was served. Looks at the file or device. */
bool medium_has_failed(struct media *media);

/* `known`: what the state store knows of the file; NULL: no data were served from it. A lost file
 * gets a lost medium. */
int medium_open(struct media_openings *openings, const struct media_wish *wish,
		const struct media_record *known, struct media **ret_media,
		struct media_error *ret_error);
/* Makes a lost medium; ret_error has the reason, which is logged. */
int medium_open_lost(const struct media_wish *wish, const struct media_record *record,
		     struct media **ret_media, struct media_error *ret_error);
/* Keeps that the data of a lost medium are given up. Call before medium_retry makes an empty
 * file. */
int medium_give_up(const struct media_wish *wish, struct media *lost, const char *path,
		   const struct keeper *keeper, struct media_error *ret_error);
/* Opens a lost medium again. `is_recreated`: a missing file is created anew and empty. */
int medium_retry(struct media_openings *openings, const struct media_wish *wish, struct media *lost,
		 bool is_recreated, struct media **ret_media, struct media_error *ret_error);
/* Opens what the path leads to now, in place of a file that other members do not have. */
int medium_open_name(struct media_openings *openings, const struct media_wish *wish,
		     struct media *refused, struct media **ret_media,
		     struct media_error *ret_error);
/* Opens a medium again that failed while it was served. */
int medium_recheck(struct media_openings *openings, const struct media_wish *wish,
		   struct media *failed, struct media **ret_media, struct media_error *ret_error);

#endif
