/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps refusals in the state store: files that were refused because another member had another
 * file under the UUID. A restart must not count as a decision of the operator, and after a power
 * cut the order of starts must not decide between the right file and the wrong one.
 *
 * A refusal is kept under the kind "refused" and the UUID, as a line of text: the file (inode and
 * birth; a block device has no lasting identity), whether a refuser served, and the names of the
 * refusers. A file other than the refused one may be the right file, or a new copy of the wrong
 * one: only the refusers can settle this. Control reactor.
 */
#include "cluster/peers_private.h"

#include "base/log.h"
#include "media/media.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSAL_KIND   "refused"
#define REFUSAL_FORMAT "inode=%" PRIu64 " born=%" PRIu64 " served=%u by="
#define REFUSAL_SCAN   "inode=%" SCNu64 " born=%" SCNu64 " served=%u by=%n"
#define REFUSAL_BYTES  (128 + PEERS_MAX * (PEER_NAME_BYTES + 1))

/* Names of members, each followed by a comma. If none of them is a member any more, any other
 * member may decide. */
static uint16_t refusers_of(const struct peers *peers, const char *names)
{
	uint16_t refusers = 0, all = 0;

	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		const char *name = peers->config.peers[i].name;
		size_t len = strlen(name);

		all |= peer_bit(peers, i);
		for (const char *at = names; at; at = strchr(at, ',')) {
			at += *at == ',';
			if (strncmp(at, name, len) == 0 && at[len] == ',')
				refusers |= peer_bit(peers, i);
		}
	}
	return refusers != 0 ? refusers : all;
}

static void names_write(const struct peers *peers, uint16_t refusers, char *text, size_t text_bytes)
{
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		size_t len = strlen(text);

		if ((refusers & peer_bit(peers, i)) != 0)
			snprintf(text + len, text_bytes - len, "%s,", peers->config.peers[i].name);
	}
}

static void refusal_take(const struct peers *peers, struct peer_share *share, const char *text)
{
	uint64_t inode, born_ns;
	unsigned was_served;
	int names = 0;

	/* An unreadable record counts as a refusal: the operator decides. */
	if (sscanf(text, REFUSAL_SCAN, &inode, &born_ns, &was_served, &names) < 3 || names == 0) {
		share->kept_is_refused = true;
		share->kept_refusers = refusers_of(peers, "");
	} else if (inode == share->inode && born_ns == share->born_ns) {
		share->kept_is_refused = was_served != 0;
		share->kept_refusers = refusers_of(peers, text + names);
	} else {
		share->doubters = refusers_of(peers, text + names);
	}
	share->refusers |= share->kept_refusers;
	share->is_refused |= share->kept_is_refused;
}

void peer_refusal_recall(struct peers *peers, struct peer_share *share, const struct media *media)
{
	const struct keeper *keeper = &peers->keeper;
	char key[UUID_TEXT_BYTES], text[REFUSAL_BYTES];
	struct media_record record = {0};
	void *value = NULL;
	size_t bytes = 0;
	int res;

	if (media_get_record(media, &record) && !record.is_block_device) {
		share->inode = record.inode;
		share->born_ns = record.born_ns;
	}
	share->has_kept = share->kept_is_refused = false;
	share->kept_refusers = share->doubters = 0;
	if (!keeper->recall)
		return;
	res = keeper->recall(keeper->arg, REFUSAL_KIND, uuid_format(&share->uuid, key), &value,
			     &bytes);
	if (res == -ENOENT)
		return;
	if (res < 0)
		log_error("control", "%s: cannot read whether the file was refused: %s", key,
			  strerror(-res));
	share->has_kept = true;
	snprintf(text, sizeof(text), "%.*s", res < 0 ? 0 : (int)bytes,
		 res < 0 ? "" : (const char *)value);
	free(value);
	refusal_take(peers, share, text);
}

void peer_refusal_keep(struct peers *peers, struct peer_share *share)
{
	const struct keeper *keeper = &peers->keeper;
	bool is_over = share->refusers == 0;
	char key[UUID_TEXT_BYTES], text[REFUSAL_BYTES];
	int res;

	if (!keeper->keep ||
	    (is_over ? !share->has_kept || (share->kept_refusers == 0 && !share->is_served)
		     : share->kept_refusers == share->refusers &&
			       share->kept_is_refused == share->is_refused))
		return;
	snprintf(text, sizeof(text), REFUSAL_FORMAT, share->inode, share->born_ns,
		 share->is_refused);
	names_write(peers, share->refusers, text, sizeof(text));
	uuid_format(&share->uuid, key);
	res = keeper->keep(keeper->arg, REFUSAL_KIND, key, is_over ? NULL : text,
			   is_over ? 0 : strlen(text));
	if (res < 0) {
		log_limited(LOG_LEVEL_ERROR, "control",
			    "%s: cannot save that the file %s: %s; the next comparison tries again",
			    key, is_over ? "is the right one" : "was refused", strerror(-res));
		return;
	}
	share->has_kept = !is_over;
	share->kept_refusers = share->refusers;
	share->kept_is_refused = share->is_refused;
}
