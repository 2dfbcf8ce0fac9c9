/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a namespace: its medium, which hosts see it, its protection. For identities that
 * the document leaves out see config_identity.c. Control thread only; opens nothing.
 */
#include "base/check.h"
#include "base/text.h"
#include "config/config_merge.h"
#include "config/config_parse.h"
#include "config/document.h"
#include "config/fields.h"
#include "media/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void uuid_field_parse(struct config_cursor *at, const json_t *object,
			     const struct config_field *field, void *to)
{
	struct config_ns *ns = to;
	const char *text = NULL;

	if (!config_get_text(at, object, field->key, &text))
		return;
	if (uuid_parse(text, &ns->uuid) || uuid_is_nil(&ns->uuid)) {
		memset(&ns->uuid, 0, sizeof(ns->uuid));
		config_complain(at, "uuid",
				"must be a UUID such as 6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f, "
				"not all zeroes");
	}
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void nguid_parse(struct config_cursor *at, const json_t *object,
			const struct config_field *field, void *to)
{
	struct config_ns *ns = to;
	const char *text = NULL;
	uint8_t nguid[16] = {0};
	bool is_good;

	if (!config_get_text(at, object, field->key, &text))
		return;
	is_good = strlen(text) == 32;
	for (size_t i = 0; is_good && i < 32; i++) {
		int digit = hex_digit(text[i]);

		is_good = digit >= 0;
		nguid[i / 2] = (uint8_t)(nguid[i / 2] << 4 | (digit & 0xf));
	}
	if (!is_good || config_nguid_is_nil(nguid))
		config_complain(at, "nguid", "must be 32 hexadecimal digits, not all zeroes");
	else
		memcpy(ns->nguid, nguid, sizeof(nguid));
}

/* A memory medium gets another identity in the next run, so only edits see this run's. */
static bool id_is_written(const struct config_writing *writing, const void *from)
{
	const struct config_ns *ns = from;

	return writing->is_edit || !ns->has_made_identity || !config_ns_is_volatile(ns);
}

static json_t *uuid_write(const struct config_writing *writing, const struct config_field *field,
			  const void *from)
{
	const struct config_ns *ns = from;
	char text[UUID_TEXT_BYTES];

	return json_string(uuid_format(&ns->uuid, text));
}

static json_t *nguid_write(const struct config_writing *writing, const struct config_field *field,
			   const void *from)
{
	const struct config_ns *ns = from;
	char text[33];

	for (unsigned i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", ns->nguid[i]);
	return json_string(text);
}

static void media_parse(struct config_cursor *at, const json_t *object,
			const struct config_field *field, void *to)
{
	struct media_error error = {""};
	struct config_ns *ns = to;
	const char *text = NULL;
	int res;

	if (!config_get_text(at, object, field->key, &text))
		return;
	res = media_check_spec(text, &error);
	if (res == -ENOMEM) {
		config_complain_memory(at, field->key);
		return;
	}
	if (res < 0) {
		config_complain(at, field->key, "%s", error.text);
		return;
	}
	ns->media = strdup(text);
	if (!ns->media)
		config_complain_memory(at, field->key);
}

/* A namespace keeps its medium. It also keeps its size when the document gives a smaller one. */
static void media_merge(struct config_merge *merge, const struct config_field *field, json_t *saved,
			const json_t *more)
{
	const char *media = document_text(saved, field->key);
	const char *wanted = document_text(more, field->key);

	if (!config_media_same(media, wanted))
		config_errors_add(
			merge->errors,
			"--merge: namespace %.223s/%lld has %.100s, not %.100s; give the new "
			"namespace another NSID, or replace the saved state with --reset",
			document_text(merge->above, "nqn"),
			(long long)json_integer_value(json_object_get(saved, "nsid")), media,
			wanted);
	else if (config_media_bytes(wanted) >= config_media_bytes(media))
		config_merge_set(merge, saved, field->key, json_object_get(more, field->key));
}

static void protect_given_note(struct config_cursor *at, const json_t *object, void *to)
{
	struct config_ns *ns = to;

	ns->is_protect_given = json_object_get(object, "write_protect") != NULL;
}

/* A list that is present masks, even when empty or wrong: a typing error must not make the
 * namespace visible to more hosts. */
static void hosts_check(struct config_cursor *at, const json_t *object, void *to)
{
	struct config_ns *ns = to;

	ns->is_masked = json_object_get(object, "hosts") != NULL;
	if (ns->is_private && !ns->is_masked)
		config_complain(
			at, "private",
			"needs \"hosts\": a private namespace belongs to one host at a time");
	else if (ns->is_private && ns->host_count > 1)
		config_complain(at, "hosts",
				"lists %u hosts, and the namespace is private: list one, or remove "
				"\"private\"",
				ns->host_count);
}

static bool hosts_are_written(const struct config_writing *writing, const void *from)
{
	return ((const struct config_ns *)from)->is_masked;
}

static bool hidden_is_written(const struct config_writing *writing, const void *from)
{
	return ((const struct config_ns *)from)->hidden_count > 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define NS struct config_ns
static const struct config_field ns_fields[] = {
	{"nsid", "NSID of the namespace", FIELD_IS_U32(NS, nsid, 1, CONFIG_NSID_MAX),
	 .change = FIELD_NAMES, .absent = "the lowest free NSID", FIELD_SERVED(struct ns, nsid),
	 .argument = "N"},
	{"media", "medium with the namespace's blocks, as for --ns of weft serve",
	 FIELD_IS_TEXT(NS, media, UINT32_MAX), .parse = media_parse, .merge = media_merge,
	 .argument = "SPEC",
	 .missing = "give the medium with the namespace's blocks, such as "
		    "\"file:/var/lib/weft/disk.img,size=10G\" or \"mem:1G\""},
	{"uuid", "UUID of the namespace", .kind = FIELD_ID, FIELD_AT(NS, uuid, struct uuid),
	 .absent = "random", FIELD_SERVED(struct ns, uuid), .parse = uuid_field_parse,
	 .is_written = id_is_written, .write = uuid_write, .argument = "UUID"},
	{"nguid", "NGUID of the namespace, 32 hexadecimal digits", .kind = FIELD_ID,
	 .offset = offsetof(NS, nguid), .absent = "the UUID's bytes",
	 FIELD_SERVED(struct ns, nguid), .parse = nguid_parse, .is_written = id_is_written,
	 .write = nguid_write, .argument = "HEX"},
	{"read_only", "whether writes are refused", FIELD_IS_BOOL(NS, is_read_only),
	 FIELD_SERVED(struct ns, is_read_only)},
	{"write_protect", "whether writes are refused, and for how long", .kind = FIELD_WORD,
	 .words = config_write_protects, .word_count = CONFIG_WRITE_PROTECTS,
	 FIELD_AT(NS, write_protect, enum ns_write_protect), FIELD_SERVED(struct ns, write_protect),
	 .check = protect_given_note},
	{"ana_group", "ANA group, 1 to 1024", FIELD_IS_U32(NS, ana_group, 1, CONFIG_ANA_GROUP_MAX),
	 .number = 1, FIELD_SERVED(struct ns, ana_group), .argument = "N"},
	{"private", "whether only one host at a time may use the namespace",
	 FIELD_IS_BOOL(NS, is_private), FIELD_SERVED(struct ns, is_private)},
	{"clustered", "whether other members of the cluster serve the namespace too",
	 FIELD_IS_BOOL(NS, is_clustered), .change = FIELD_FIXED,
	 FIELD_SERVED(struct ns, is_clustered)},
	{"hosts", "a host that sees the namespace",
	 FIELD_IS_NQNS(NS, hosts, host_count, CONFIG_HOSTS_MAX), .check = hosts_check,
	 .is_written = hosts_are_written, .option = "host", .argument = "NQN|any|none"},
	{"hidden_from", "a host from which the namespace is hidden",
	 FIELD_IS_NQNS(NS, hidden_from, hidden_count, CONFIG_HOSTS_MAX),
	 .is_written = hidden_is_written, .argument = "NQN|none"},
	{"label", "description of the namespace, at most 256 bytes",
	 FIELD_IS_TEXT(NS, label, TARGET_NS_LABEL_BYTES), .argument = "TEXT"},
};

/* Matches by medium: a file by its path, memory by its whole spec. */
static json_t *ns_by_media(const json_t *list, const json_t *found, const json_t *element)
{
	const char *media = document_text(element, "media");
	char *path = config_media_path(media);
	json_t *same = NULL;

	for (size_t i = 0; !same && i < json_array_size(list); i++) {
		json_t *ns = json_array_get(list, i);
		const char *other = document_text(ns, "media");

		if (document_list_has(found, json_object_get(ns, "nsid")))
			continue;
		if (path ? config_media_same(media, other) : strcmp(media, other) == 0)
			same = ns;
	}
	free(path);
	return same;
}

const struct config_object config_ns_object = {
	"namespace", sizeof(NS), NULL, ns_fields, ARRAY_LEN(ns_fields), .find = ns_by_media};

void config_ns_parse(struct config_cursor *at, const json_t *object, unsigned index,
		     struct config_ns *ns)
{
	config_object_init(&config_ns_object, ns);
	ns->nsid = index + 1;
	config_object_parse(at, &config_ns_object, object, ns);
}
