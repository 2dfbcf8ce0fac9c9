/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fixed newstyle handshake of NBD, from the greeting to the first request. Pure; no thread of
 * its own. NBD doc/proto.md, "Handshake phase": EXPORT_NAME, ABORT, LIST, INFO, GO,
 * STRUCTURED_REPLY, LIST_META_CONTEXT and SET_META_CONTEXT. Every other option is answered with
 * "unsupported", as the fixed newstyle requires.
 *
 * There is one export. Its name is empty unless the user gave one.
 */
#include "attach/nbd_be.h"
#include "attach/nbd_proto.h"
#include "base/check.h"

#include <errno.h>

#define GREETING_MAGIC     0x4e42444d41474943ull /* NBDMAGIC */
#define OPTION_MAGIC       0x49484156454f5054ull /* IHAVEOPT */
#define OPTION_REPLY_MAGIC 0x0003e889045565a9ull

#define CLIENT_FLAGS_BYTES  4
#define OPTION_HEADER_BYTES 16
#define OPTION_REPLY_BYTES  20
#define EXPORT_ZEROES_BYTES 124
#define PREFERRED_BYTES     4096
#define CONTEXT_NAME        "base:allocation"
#define CONTEXT_NAMESPACE   "base:"

/* Flags of the greeting, in both directions. */
#define FLAG_FIXED_NEWSTYLE (1 << 0)
#define FLAG_NO_ZEROES      (1 << 1)

enum option {
	OPT_EXPORT_NAME = 1,
	OPT_ABORT = 2,
	OPT_LIST = 3,
	OPT_INFO = 6,
	OPT_GO = 7,
	OPT_STRUCTURED_REPLY = 8,
	OPT_LIST_META_CONTEXT = 9,
	OPT_SET_META_CONTEXT = 10,
};

enum option_reply {
	REP_ACK = 1,
	REP_SERVER = 2,
	REP_INFO = 3,
	REP_META_CONTEXT = 4,
	REP_ERR_UNSUP = (int)0x80000001u,
	REP_ERR_INVALID = (int)0x80000003u,
	REP_ERR_UNKNOWN = (int)0x80000006u,
	REP_ERR_TOO_BIG = (int)0x80000009u,
};

enum info {
	INFO_EXPORT = 0,
	INFO_NAME = 1,
	INFO_DESCRIPTION = 2,
	INFO_BLOCK_SIZE = 3,
};

enum transmission_flags {
	HAS_FLAGS = 1 << 0,
	READ_ONLY = 1 << 1,
	SEND_FLUSH = 1 << 2,
	SEND_FUA = 1 << 3,
	SEND_TRIM = 1 << 5,
	SEND_WRITE_ZEROES = 1 << 6,
	SEND_DF = 1 << 7,
	CAN_MULTI_CONN = 1 << 8,
};

/* CAN_MULTI_CONN: a flush reaches the controller, so it covers writes answered on every
 * connection. */
static uint16_t export_flags(const struct nbd_handshake *handshake)
{
	const struct nbd_export *export = handshake->export;
	uint16_t flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN;

	flags |= handshake->terms.is_structured ? SEND_DF : 0;
	return flags | (export->is_read_only ? READ_ONLY : SEND_TRIM | SEND_WRITE_ZEROES);
}

/* ---- answers -------------------------------------------------------------------------------- */

static uint8_t *answer_grow(struct nbd_handshake *handshake, size_t bytes)
{
	uint8_t *at = handshake->answer + handshake->answer_bytes;

	CHECK(bytes <= sizeof(handshake->answer) - handshake->answer_bytes);
	handshake->answer_bytes += bytes;
	return at;
}

/* Adds the header of an option's reply; returns the place for its body of body_bytes. */
static uint8_t *answer_option(struct nbd_handshake *handshake, uint32_t option,
			      enum option_reply type, uint32_t body_bytes)
{
	uint8_t *at = answer_grow(handshake, OPTION_REPLY_BYTES + body_bytes);

	nbd_put_u64(at, OPTION_REPLY_MAGIC);
	nbd_put_u32(at + 8, option);
	nbd_put_u32(at + 12, (uint32_t)type);
	nbd_put_u32(at + 16, body_bytes);
	return at + OPTION_REPLY_BYTES;
}

static void answer_text(struct nbd_handshake *handshake, uint32_t option, enum info info,
			const char *text)
{
	size_t len_bytes = strlen(text);
	uint8_t *at = answer_option(handshake, option, REP_INFO, 2 + (uint32_t)len_bytes);

	nbd_put_u16(at, info);
	memcpy(at + 2, text, len_bytes);
}

static void answer_export(struct nbd_handshake *handshake, uint32_t option)
{
	const struct nbd_export *export = handshake->export;
	uint32_t preferred =
		export->block_bytes > PREFERRED_BYTES ? export->block_bytes : PREFERRED_BYTES;
	uint8_t *at = answer_option(handshake, option, REP_INFO, 12);

	nbd_put_u16(at, INFO_EXPORT);
	nbd_put_u64(at + 2, export->size_bytes);
	nbd_put_u16(at + 10, export_flags(handshake));
	/* Sent even if not asked for: a client that does not know this item ignores it. */
	at = answer_option(handshake, option, REP_INFO, 14);
	nbd_put_u16(at, INFO_BLOCK_SIZE);
	nbd_put_u32(at + 2, export->block_bytes);
	nbd_put_u32(at + 6, preferred);
	nbd_put_u32(at + 10, NBD_LENGTH_MAX);
}

static void answer_list(struct nbd_handshake *handshake)
{
	const char *name = handshake->export->name;
	uint32_t len_bytes = (uint32_t)strlen(name);
	uint8_t *at = answer_option(handshake, OPT_LIST, REP_SERVER, 4 + len_bytes);

	nbd_put_u32(at, len_bytes);
	memcpy(at + 4, name, len_bytes);
	answer_option(handshake, OPT_LIST, REP_ACK, 0);
}

/* ---- options -------------------------------------------------------------------------------- */

static bool name_is_ours(const struct nbd_handshake *handshake, const uint8_t *name,
			 size_t len_bytes)
{
	return len_bytes == strlen(handshake->export->name) &&
	       memcmp(name, handshake->export->name, len_bytes) == 0;
}

/* The only option without a reply header, and without an error reply. */
static int export_name_take(struct nbd_handshake *handshake, const uint8_t *body, uint32_t bytes)
{
	uint8_t *at;

	if (!name_is_ours(handshake, body, bytes))
		return -EPROTO;
	at = answer_grow(handshake, 10);
	nbd_put_u64(at, handshake->export->size_bytes);
	nbd_put_u16(at + 8, export_flags(handshake));
	if (!handshake->has_no_zeroes)
		memset(answer_grow(handshake, EXPORT_ZEROES_BYTES), 0, EXPORT_ZEROES_BYTES);
	handshake->phase = NBD_PHASE_REQUEST;
	return 0;
}

/* INFO and GO: length of the name, name, number of information items, items. */
static void go_take(struct nbd_handshake *handshake, uint32_t option, const uint8_t *body,
		    uint32_t bytes)
{
	uint32_t name_bytes = bytes >= 6 ? nbd_get_u32(body) : 0;
	unsigned count;

	if (bytes < 6 || name_bytes > bytes - 6) {
		answer_option(handshake, option, REP_ERR_INVALID, 0);
		return;
	}
	count = nbd_get_u16(body + 4 + name_bytes);
	if (bytes != 6 + name_bytes + 2 * count) {
		answer_option(handshake, option, REP_ERR_INVALID, 0);
		return;
	}
	if (!name_is_ours(handshake, body + 4, name_bytes)) {
		answer_option(handshake, option, REP_ERR_UNKNOWN, 0);
		return;
	}
	answer_export(handshake, option);
	/* Each item once, even if asked for several times. */
	for (unsigned info = INFO_NAME; info <= INFO_DESCRIPTION; info++)
		for (unsigned i = 0; i < count; i++) {
			if (nbd_get_u16(body + 6 + name_bytes + 2 * i) != info)
				continue;
			answer_text(handshake, option, info,
				    info == INFO_NAME ? handshake->export->name
						      : handshake->export->description);
			break;
		}
	answer_option(handshake, option, REP_ACK, 0);
	if (option == OPT_GO)
		handshake->phase = NBD_PHASE_REQUEST;
}

/* Whether the query asks for base:allocation: by name, or by its namespace when listing. */
static bool query_matches(uint32_t option, const uint8_t *query, uint32_t bytes)
{
	if (bytes == strlen(CONTEXT_NAME) && memcmp(query, CONTEXT_NAME, bytes) == 0)
		return true;
	return option == OPT_LIST_META_CONTEXT && bytes == strlen(CONTEXT_NAMESPACE) &&
	       memcmp(query, CONTEXT_NAMESPACE, bytes) == 0;
}

/* Reads all queries, each a length and a string. False if they do not end with the option. */
static bool queries_take(uint32_t option, const uint8_t *at, uint32_t bytes, uint32_t count,
			 bool *ret_is_asked)
{
	*ret_is_asked = count == 0 && option == OPT_LIST_META_CONTEXT;
	for (; count > 0; count--) {
		uint32_t query_bytes;

		if (bytes < 4)
			return false;
		query_bytes = nbd_get_u32(at);
		if (query_bytes > bytes - 4)
			return false;
		*ret_is_asked |= query_matches(option, at + 4, query_bytes);
		at += 4 + query_bytes;
		bytes -= 4 + query_bytes;
	}
	return bytes == 0;
}

/* Length of the export's name, name, number of queries, queries. */
static void context_take(struct nbd_handshake *handshake, uint32_t option, const uint8_t *body,
			 uint32_t bytes)
{
	uint32_t name_bytes = bytes >= 8 ? nbd_get_u32(body) : 0;
	bool is_asked = false;
	uint8_t *at;

	/* A SET discards the former selection, even if it fails. */
	if (option == OPT_SET_META_CONTEXT)
		handshake->terms.has_allocation = false;
	if (!handshake->terms.is_structured || bytes < 8 || name_bytes > bytes - 8 ||
	    !queries_take(option, body + 8 + name_bytes, bytes - 8 - name_bytes,
			  nbd_get_u32(body + 4 + name_bytes), &is_asked)) {
		answer_option(handshake, option, REP_ERR_INVALID, 0);
		return;
	}
	if (!name_is_ours(handshake, body + 4, name_bytes)) {
		answer_option(handshake, option, REP_ERR_UNKNOWN, 0);
		return;
	}
	if (is_asked) {
		at = answer_option(handshake, option, REP_META_CONTEXT, 4 + strlen(CONTEXT_NAME));
		nbd_put_u32(at, option == OPT_SET_META_CONTEXT ? NBD_CONTEXT_ALLOCATION : 0);
		memcpy(at + 4, CONTEXT_NAME, strlen(CONTEXT_NAME));
	}
	if (option == OPT_SET_META_CONTEXT)
		handshake->terms.has_allocation = is_asked;
	answer_option(handshake, option, REP_ACK, 0);
}

static void structured_take(struct nbd_handshake *handshake, uint32_t bytes)
{
	handshake->terms.is_structured |= bytes == 0;
	answer_option(handshake, OPT_STRUCTURED_REPLY, bytes == 0 ? REP_ACK : REP_ERR_INVALID, 0);
}

static int option_take(struct nbd_handshake *handshake, uint32_t option, const uint8_t *body,
		       uint32_t bytes)
{
	switch (option) {
	case OPT_EXPORT_NAME:
		return export_name_take(handshake, body, bytes);
	case OPT_ABORT:
		answer_option(handshake, option, REP_ACK, 0);
		handshake->phase = NBD_PHASE_ENDED;
		return 0;
	case OPT_LIST:
		if (bytes != 0)
			answer_option(handshake, option, REP_ERR_INVALID, 0);
		else
			answer_list(handshake);
		return 0;
	case OPT_INFO:
	case OPT_GO:
		go_take(handshake, option, body, bytes);
		return 0;
	case OPT_STRUCTURED_REPLY:
		structured_take(handshake, bytes);
		return 0;
	case OPT_LIST_META_CONTEXT:
	case OPT_SET_META_CONTEXT:
		context_take(handshake, option, body, bytes);
		return 0;
	default:
		answer_option(handshake, option, REP_ERR_UNSUP, 0);
		return 0;
	}
}

/* ---- parsing the stream --------------------------------------------------------------------- */

static int flags_take(struct nbd_handshake *handshake, const uint8_t *bytes, size_t len_bytes)
{
	uint32_t flags;

	if (len_bytes < CLIENT_FLAGS_BYTES)
		return 0;
	flags = nbd_get_u32(bytes);
	if (flags & ~(uint32_t)(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES))
		return -EPROTO;
	handshake->has_no_zeroes = flags & FLAG_NO_ZEROES;
	handshake->phase = NBD_PHASE_OPTION;
	return CLIENT_FLAGS_BYTES;
}

/* Skips the rest of an option that is too long. */
static int skip_take(struct nbd_handshake *handshake, size_t len_bytes)
{
	size_t part = len_bytes < handshake->skip_bytes ? len_bytes : handshake->skip_bytes;

	if (part > NBD_OPTION_BODY_BYTES)
		part = NBD_OPTION_BODY_BYTES;
	handshake->skip_bytes -= part;
	if (handshake->skip_bytes == 0)
		answer_option(handshake, handshake->skip_option, REP_ERR_TOO_BIG, 0);
	return (int)part;
}

static int header_take(struct nbd_handshake *handshake, const uint8_t *bytes, size_t len_bytes)
{
	uint32_t option, body_bytes;
	int res;

	if (len_bytes < OPTION_HEADER_BYTES)
		return 0;
	option = nbd_get_u32(bytes + 8);
	body_bytes = nbd_get_u32(bytes + 12);
	if (nbd_get_u64(bytes) != OPTION_MAGIC)
		return -EPROTO;
	if (body_bytes > NBD_OPTION_BODY_BYTES) {
		if (option == OPT_EXPORT_NAME)
			return -EPROTO;
		handshake->skip_bytes = body_bytes;
		handshake->skip_option = option;
		return OPTION_HEADER_BYTES;
	}
	if (len_bytes - OPTION_HEADER_BYTES < body_bytes)
		return 0;
	res = option_take(handshake, option, bytes + OPTION_HEADER_BYTES, body_bytes);
	return res < 0 ? res : (int)(OPTION_HEADER_BYTES + body_bytes);
}

void nbd_handshake_init(struct nbd_handshake *handshake, const struct nbd_export *export)
{
	uint8_t *at;

	memset(handshake, 0, sizeof(*handshake));
	handshake->export = export;
	handshake->phase = NBD_PHASE_FLAGS;
	at = answer_grow(handshake, NBD_GREETING_BYTES);
	nbd_put_u64(at, GREETING_MAGIC);
	nbd_put_u64(at + 8, OPTION_MAGIC);
	nbd_put_u16(at + 16, FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
}

int nbd_handshake_take(struct nbd_handshake *handshake, const uint8_t *bytes, size_t len_bytes)
{
	int used;

	handshake->answer_bytes = 0;
	if (handshake->phase == NBD_PHASE_FLAGS)
		used = flags_take(handshake, bytes, len_bytes);
	else if (handshake->skip_bytes > 0)
		used = skip_take(handshake, len_bytes);
	else
		used = header_take(handshake, bytes, len_bytes);
	if (used < 0)
		handshake->phase = NBD_PHASE_ENDED;
	return used;
}
