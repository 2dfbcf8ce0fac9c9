/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a namespace of the configuration: its medium, who sees it, how it is protected.
 * Identities that the document leaves out: config_identity.c.
 *
 * Control thread only. Nothing is opened here.
 */
#include "base/text.h"
#include "config/config_parse.h"
#include "media/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void parse_uuid(struct config_cursor *at, const json_t *object, struct config_ns *ns)
{
	const char *text = NULL;

	if (!config_get_text(at, object, "uuid", &text))
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

static bool nguid_is_nil(const uint8_t nguid[16])
{
	static const uint8_t nil[16];

	return memcmp(nguid, nil, sizeof(nil)) == 0;
}

static void parse_nguid(struct config_cursor *at, const json_t *object, struct config_ns *ns)
{
	const char *text = NULL;
	uint8_t nguid[16] = {0};
	bool is_good;

	if (!config_get_text(at, object, "nguid", &text))
		return;
	is_good = strlen(text) == 32;
	for (size_t i = 0; is_good && i < 32; i++) {
		int digit = hex_digit(text[i]);

		is_good = digit >= 0;
		nguid[i / 2] = (uint8_t)(nguid[i / 2] << 4 | (digit & 0xf));
	}
	if (!is_good || nguid_is_nil(nguid))
		config_complain(at, "nguid", "must be 32 hexadecimal digits, not all zeroes");
	else
		memcpy(ns->nguid, nguid, sizeof(nguid));
}

static void parse_media(struct config_cursor *at, const json_t *object, struct config_ns *ns)
{
	struct media_error error = {""};
	const char *text = NULL;
	int res;

	if (!json_object_get(object, "media")) {
		config_complain(at, "media",
				"is missing; give what the blocks live on, such as "
				"\"file:/var/lib/weft/disk.img,size=10G\" or \"mem:1G\"");
		return;
	}
	if (!config_get_text(at, object, "media", &text))
		return;
	res = media_check_spec(text, &error);
	if (res == -ENOMEM) {
		config_complain_memory(at, "media");
		return;
	}
	if (res < 0) {
		config_complain(at, "media", "%s", error.text);
		return;
	}
	ns->media = strdup(text);
	if (!ns->media)
		config_complain_memory(at, "media");
}

static void parse_protect(struct config_cursor *at, const json_t *object, struct config_ns *ns)
{
	const char *text = NULL;

	if (!config_get_text(at, object, "write_protect", &text))
		return;
	ns->is_protect_given = true;
	if (!config_write_protect_parse(text, &ns->write_protect))
		config_complain(at, "write_protect",
				"\"%s\" must be \"none\", \"protected\", \"until-power-cycle\" or "
				"\"permanent\"",
				text);
}

static void parse_label(struct config_cursor *at, const json_t *object, struct config_ns *ns)
{
	const char *text = NULL;

	if (!config_get_text(at, object, "label", &text))
		return;
	if (strlen(text) > TARGET_NS_LABEL_BYTES) {
		config_complain(at, "label", "has %zu bytes, at most %d are possible", strlen(text),
				TARGET_NS_LABEL_BYTES);
		return;
	}
	if (text[0] == 0)
		return;
	ns->label = strdup(text);
	if (!ns->label)
		config_complain_memory(at, "label");
}

/* A list that is present masks, even when it is empty or wrong: nobody sees more by a typo. */
static void parse_hosts(struct config_cursor *at, const json_t *object, struct config_ns *ns)
{
	ns->is_masked = json_object_get(object, "hosts") != NULL;
	config_get_nqns(at, object, "hosts", CONFIG_HOSTS_MAX, &ns->hosts, &ns->host_count);
	config_get_nqns(at, object, "hidden_from", CONFIG_HOSTS_MAX, &ns->hidden_from,
			&ns->hidden_count);
	config_get_bool(at, object, "private", &ns->is_private);
	if (ns->is_private && !ns->is_masked)
		config_complain(at, "private",
				"needs \"hosts\": a private namespace is one host's at a time");
	else if (ns->is_private && ns->host_count > 1)
		config_complain(at, "hosts",
				"lists %u hosts, and the namespace is private: list one, or remove "
				"\"private\"",
				ns->host_count);
}

void config_ns_parse(struct config_cursor *at, const json_t *object, unsigned index,
		     struct config_ns *ns)
{
	static const char *const keys[] = {"nsid",          "media",     "uuid",  "nguid",
					   "read_only",     "ana_group", "hosts", "hidden_from",
					   "write_protect", "private",   "label", "clustered"};

	ns->nsid = index + 1;
	ns->ana_group = 1;
	config_object_check(at, object, keys, ARRAY_LEN(keys));
	if (!json_is_object(object))
		return;
	config_get_u32(at, object, "nsid", 1, CONFIG_NSID_MAX, &ns->nsid);
	config_get_u32(at, object, "ana_group", 1, CONFIG_ANA_GROUP_MAX, &ns->ana_group);
	config_get_bool(at, object, "read_only", &ns->is_read_only);
	config_get_bool(at, object, "clustered", &ns->is_clustered);
	parse_media(at, object, ns);
	parse_uuid(at, object, ns);
	parse_nguid(at, object, ns);
	parse_protect(at, object, ns);
	parse_label(at, object, ns);
	parse_hosts(at, object, ns);
}

/* The thing itself rather than how it is opened or how large it is now: the path of a file, else
 * the kind of medium. */
char *config_media_identity(const char *spec)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	char *identity;

	if (media_spec_parse(spec, &parsed, NULL))
		return strdup(spec);
	while (at->inner)
		at = at->inner;
	identity = at->path ? strdup(at->path) : strndup(at->text, strcspn(at->text, ":"));
	media_spec_free(&parsed);
	return identity;
}
