/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the medium of a namespace whose data may be missing. A file or device from which data were
 * served is neither made nor grown. While it is missing, a lost medium stands for it, and the
 * namespace is inaccessible. The operator asks for another look (recheck), or gives the data up
 * (recreate).
 *
 * Control thread only: opening may block.
 */
#include "daemon/medium_open.h"

#include "base/log.h"
#include "daemon/media_records.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool medium_has_failed(struct media *media)
{
	return media_is_lost(media) || media_is_cut(media);
}

int medium_open(const struct media_wish *wish, const struct media_record *known,
		struct media **ret_media, struct media_error *ret_error)
{
	const struct media_terms terms = {.is_shared = wish->is_clustered,
					  .member = wish->member,
					  .known = known,
					  .must_not_wait = wish->must_not_wait};
	int res = media_open_on(wish->spec, &terms, ret_media, ret_error);

	if (!known || !media_is_loss(res))
		return res;
	log_error("control",
		  "%s, namespace %u: %s; the namespace is inaccessible. Bring the data back, then "
		  "`weft ctl namespace recheck %s %u`; or give them up: `weft ctl namespace "
		  "recreate %s %u`",
		  wish->nqn, wish->nsid, ret_error->text, wish->nqn, wish->nsid, wish->nqn,
		  wish->nsid);
	return media_open_lost(wish->spec, &terms, ret_error, ret_media);
}

/* A kill before the document is kept would leave an empty file under the former UUID. */
int medium_give_up(const struct media_wish *wish, struct media *lost, const char *path,
		   const struct target_keeper *keeper, struct media_error *ret_error)
{
	struct media_record record;
	int res;

	media_get_record(lost, &record);
	res = media_record_give_up(keeper, path, &record, wish->uuid);
	if (res < 0)
		snprintf(ret_error->text, sizeof(ret_error->text),
			 "%.120s: that its data are given up could not be kept: %s", path,
			 strerror(-res));
	return res;
}

int medium_retry(const struct media_wish *wish, struct media *lost, bool is_recreated,
		 struct media **ret_media, struct media_error *ret_error)
{
	struct media_record record;
	const struct media_terms terms = {.is_shared = wish->is_clustered,
					  .member = wish->member,
					  .known = &record,
					  .is_recreated = is_recreated,
					  .must_not_wait = wish->must_not_wait};

	media_get_record(lost, &record);
	return media_open_on(wish->spec, &terms, ret_media, ret_error);
}

int medium_open_name(const struct media_wish *wish, struct media *refused, struct media **ret_media,
		     struct media_error *ret_error)
{
	int res = medium_retry(wish, refused, false, ret_media, ret_error);

	/* We hold the lock of this member: it is the same file still. */
	return res == -EBUSY || res == -EWOULDBLOCK
		       ? media_reopen(refused, wish->spec, ret_media, ret_error)
		       : res;
}

/*
 * The medium may be whole again, or another device may have its name. Otherwise a device is closed,
 * so that its name can be given to another one, and a lost medium stands for it.
 */
int medium_recheck(const struct media_wish *wish, struct media *failed, struct media **ret_media,
		   struct media_error *ret_error)
{
	struct media_error busy;
	struct media_record record;
	const struct media_terms terms = {
		.is_shared = wish->is_clustered, .member = wish->member, .known = &record};
	int res = media_reopen(failed, wish->spec, ret_media, ret_error);

	if (res == 0 || !media_get_record(failed, &record) || !record.is_block_device)
		return res;
	if (medium_retry(wish, failed, false, ret_media, &busy) == 0)
		return 0;
	log_error("control",
		  "%s, namespace %u: %s; the device is closed and the namespace is inaccessible "
		  "until `weft ctl namespace recheck %s %u` finds it",
		  wish->nqn, wish->nsid, ret_error->text, wish->nqn, wish->nsid);
	return media_open_lost(wish->spec, &terms, ret_error, ret_media);
}
