/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the medium of a namespace whose data may be missing. A file or device from which data were
 * served is neither created nor grown. While it is missing, a lost medium replaces it, and the
 * namespace is inaccessible. The operator can ask for another look (recheck), or give the data up
 * (recreate).
 *
 * A medium may open late: then the functions return -EINPROGRESS and are called again with the same
 * arguments after the wait (daemon/media_openings.h). Control thread only: opening may block.
 */
#include "daemon/medium_open.h"

#include "base/log.h"
#include "config/config_parse.h"
#include "daemon/media_records.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool medium_has_failed(struct media *media)
{
	return media_is_lost(media) || media_is_cut(media);
}

/* A device can get its name back, but cannot be recreated; nor can a medium that is no file.
 * `told`: as in struct media_terms. */
static void loss_log(const struct media_wish *wish, const struct media_record *known,
		     const char *told, const struct media_error *error)
{
	char *path = config_media_path(wish->spec);

	if (told[0] != '\0')
		log_error("control",
			  "%s, namespace %u: %s; the namespace is inaccessible. Restore the name "
			  "of the device that was served (%s), or make sure that this device (%s) "
			  "is the right one, then `weft ctl namespace recheck %s %u`",
			  wish->nqn, wish->nsid, error->text, known->device_id, told, wish->nqn,
			  wish->nsid);
	else if (!path)
		log_error("control",
			  "%s, namespace %u: %s; the namespace is inaccessible until `weft ctl "
			  "namespace recheck %s %u` opens it",
			  wish->nqn, wish->nsid, error->text, wish->nqn, wish->nsid);
	else
		log_error("control",
			  "%s, namespace %u: %s; the namespace is inaccessible. Restore the data, "
			  "then `weft ctl namespace recheck %s %u`; or discard them: `weft ctl "
			  "namespace recreate %s %u`",
			  wish->nqn, wish->nsid, error->text, wish->nqn, wish->nsid, wish->nqn,
			  wish->nsid);
	free(path);
}

int medium_open(struct media_openings *openings, const struct media_wish *wish,
		const struct media_record *known, struct media **ret_media,
		struct media_error *ret_error)
{
	char told[MEDIA_DEVICE_ID_BYTES] = "";
	const struct media_terms terms = {.is_shared = wish->is_clustered,
					  .member = wish->member,
					  .known = known,
					  .must_not_wait = wish->must_not_wait,
					  .told = told};
	int res = media_openings_open(openings, wish, &terms, ret_media, ret_error);

	if (!known || !media_is_loss(res))
		return res;
	loss_log(wish, known, told, ret_error);
	return media_open_lost(wish->spec, &terms, ret_error, ret_media);
}

int medium_open_lost(const struct media_wish *wish, const struct media_record *record,
		     struct media **ret_media, struct media_error *ret_error)
{
	const struct media_terms terms = {
		.is_shared = wish->is_clustered, .member = wish->member, .known = record};

	loss_log(wish, record, "", ret_error);
	return media_open_lost(wish->spec, &terms, ret_error, ret_media);
}

/* Kept first: a kill before the document is kept would leave an empty file under the former
 * UUID. */
int medium_give_up(const struct media_wish *wish, struct media *lost, const char *path,
		   const struct keeper *keeper, struct media_error *ret_error)
{
	struct media_record record = {0};
	int res;

	media_get_record(lost, &record);
	res = media_record_give_up(keeper, path, &record, wish->uuid);
	if (res < 0)
		snprintf(ret_error->text, sizeof(ret_error->text),
			 "%.120s: cannot save that its data are discarded: %s", path,
			 strerror(-res));
	return res;
}

/* `told`: as in struct media_terms. Without an identity in `record` any device is accepted. */
static struct media_terms again_terms(const struct media_wish *wish,
				      const struct media_record *record, char *told)
{
	return (struct media_terms){.is_shared = wish->is_clustered,
				    .member = wish->member,
				    .known = record,
				    .must_not_wait = wish->must_not_wait,
				    .told = told};
}

int medium_retry(struct media_openings *openings, const struct media_wish *wish, struct media *lost,
		 bool is_recreated, struct media **ret_media, struct media_error *ret_error)
{
	struct media_record record = {0};
	struct media_terms terms = again_terms(wish, &record, media_lost_told(lost));
	int res;

	media_get_record(lost, &record);
	terms.is_recreated = is_recreated;
	res = media_openings_open(openings, wish, &terms, ret_media, ret_error);
	if (media_is_loss(res) && !is_recreated)
		media_lost_note(lost, ret_error);
	return res;
}

int medium_open_name(struct media_openings *openings, const struct media_wish *wish,
		     struct media *refused, struct media **ret_media, struct media_error *ret_error)
{
	struct media_record record = {0};
	const struct media_terms terms = again_terms(wish, &record, NULL);
	int res;

	/* Other members do not have the present identity, so it is not required. They also judge
	 * the medium that is opened now. */
	media_get_record(refused, &record);
	record.device_id[0] = '\0';
	res = media_openings_open(openings, wish, &terms, ret_media, ret_error);
	/* This process holds this member's lock, so the path still leads to the same file. */
	return res == -EBUSY || res == -EWOULDBLOCK
		       ? media_reopen(refused, wish->spec, ret_media, ret_error)
		       : res;
}

/*
 * The medium may be whole again, or the device may have its name again. Otherwise a device is
 * closed, so that its name can be given to another device, and a lost medium replaces it.
 */
int medium_recheck(struct media_openings *openings, const struct media_wish *wish,
		   struct media *failed, struct media **ret_media, struct media_error *ret_error)
{
	char told[MEDIA_DEVICE_ID_BYTES] = "";
	struct media_error why;
	struct media_record record = {0};
	const struct media_terms terms = again_terms(wish, &record, told);
	int res = media_reopen(failed, wish->spec, ret_media, ret_error);

	if (res == 0 || !media_get_record(failed, &record) || !record.is_block_device)
		return res;
	res = media_openings_open(openings, wish, &terms, ret_media, &why);
	if (res == 0 || res == -EINPROGRESS)
		return res;
	if (told[0] != '\0') {
		*ret_error = why;
		loss_log(wish, &record, told, ret_error);
		return media_open_lost(wish->spec, &terms, ret_error, ret_media);
	}
	log_error("control",
		  "%s, namespace %u: %s; the device is closed and the namespace is inaccessible "
		  "until `weft ctl namespace recheck %s %u` finds the device",
		  wish->nqn, wish->nsid, ret_error->text, wish->nqn, wish->nsid);
	return media_open_lost(wish->spec, &terms, ret_error, ret_media);
}
