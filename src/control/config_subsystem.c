/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a subsystem of the configuration with its namespaces and allowed hosts, and derives the
 * identities that the document leaves out: serial number from the NQN; UUID from NQN, NSID and
 * medium; NGUID from the UUID. They must never change for the same document, because hosts know
 * their disks by them.
 *
 * Control thread only.
 */
#include "control/config_parse.h"

#include "base/text.h"
#include "media/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Serial and model number: printable ASCII. NVMe Base 2.1, section 5.1.13.2.1. */
static void parse_ascii(struct config_cursor *at, const json_t *object, const char *key, char *to,
			size_t to_bytes)
{
	const char *text = NULL;

	if (!config_get_text(at, object, key, &text))
		return;
	if (text[0] == 0 || strlen(text) >= to_bytes) {
		config_complain(at, key, "must have 1 to %zu characters, has %zu", to_bytes - 1,
				strlen(text));
		return;
	}
	for (const char *c = text; *c != 0; c++) {
		if (*c < ' ' || *c > '~') {
			config_complain(at, key, "must be printable ASCII");
			return;
		}
	}
	text_copy(to, to_bytes, text);
}

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

	if (!json_object_get(object, "media")) {
		config_complain(at, "media",
				"is missing; give what the blocks live on, such as "
				"\"file:/var/lib/weft/disk.img,size=10G\" or \"mem:1G\"");
		return;
	}
	if (!config_get_text(at, object, "media", &text))
		return;
	if (media_check_spec(text, &error)) {
		config_complain(at, "media", "%s", error.text);
		return;
	}
	ns->media = strdup(text);
	if (!ns->media)
		config_complain(at, "media", "out of memory");
}

static void ns_parse(struct config_cursor *at, const json_t *object, unsigned index,
		     struct config_ns *ns)
{
	static const char *const keys[] = {"nsid",  "media",     "uuid",
					   "nguid", "read_only", "ana_group"};

	ns->nsid = index + 1;
	ns->ana_group = 1;
	config_object_check(at, object, keys, ARRAY_LEN(keys));
	if (!json_is_object(object))
		return;
	config_get_u32(at, object, "nsid", 1, CONFIG_NSID_MAX, &ns->nsid);
	config_get_u32(at, object, "ana_group", 1, CONFIG_ANA_GROUP_MAX, &ns->ana_group);
	config_get_bool(at, object, "read_only", &ns->is_read_only);
	parse_media(at, object, ns);
	parse_uuid(at, object, ns);
	parse_nguid(at, object, ns);
}

static void namespaces_parse(struct config_cursor *at, const json_t *object,
			     struct config_subsystem *subsystem)
{
	const json_t *array = NULL;

	if (!config_get_array(at, object, "namespaces", CONFIG_NSID_MAX, &array))
		return;
	subsystem->namespaces = calloc(json_array_size(array) + 1, sizeof(*subsystem->namespaces));
	if (!subsystem->namespaces) {
		config_complain(at, "namespaces", "out of memory");
		return;
	}
	for (size_t i = 0; i < json_array_size(array); i++) {
		size_t mark = config_cursor_enter(at, "namespaces", i);

		ns_parse(at, json_array_get(array, i), (unsigned)i, &subsystem->namespaces[i]);
		config_cursor_leave(at, mark);
	}
	subsystem->ns_count = (unsigned)json_array_size(array);
}

void config_subsystem_parse(struct config_cursor *at, const json_t *object,
			    struct config_subsystem *subsystem)
{
	static const char *const keys[] = {"nqn",   "serial",    "model", "allow_any_host",
					   "hosts", "namespaces"};
	const char *nqn = NULL;

	text_copy(subsystem->model, sizeof(subsystem->model), CONFIG_DEFAULT_MODEL);
	config_object_check(at, object, keys, ARRAY_LEN(keys));
	if (!json_is_object(object))
		return;
	if (!json_object_get(object, "nqn"))
		config_complain(at, "nqn", "is missing; give a name such as %s",
				TARGET_DEFAULT_NQN);
	else if (config_get_text(at, object, "nqn", &nqn) && config_nqn_check(at, "nqn", nqn))
		text_copy(subsystem->nqn, sizeof(subsystem->nqn), nqn);
	parse_ascii(at, object, "serial", subsystem->serial, sizeof(subsystem->serial));
	parse_ascii(at, object, "model", subsystem->model, sizeof(subsystem->model));
	config_get_nqns(at, object, "hosts", CONFIG_HOSTS_MAX, &subsystem->hosts,
			&subsystem->host_count);
	/* Whoever lists hosts means those; a bad entry must not open the door to everybody. */
	subsystem->allows_any_host = !json_object_get(object, "hosts");
	config_get_bool(at, object, "allow_any_host", &subsystem->allows_any_host);
	namespaces_parse(at, object, subsystem);
}

/* The thing itself rather than how it is opened: the path of a file, else the whole spec. */
static char *media_identity(const char *spec)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	char *identity;

	if (media_spec_parse(spec, &parsed, NULL))
		return strdup(spec);
	while (at->inner)
		at = at->inner;
	identity = strdup(at->path ? at->path : spec);
	media_spec_free(&parsed);
	return identity;
}

static void ns_derive(const char *nqn, struct config_ns *ns)
{
	char *identity, *name;

	if (uuid_is_nil(&ns->uuid)) {
		identity = media_identity(ns->media);
		CHECK(identity && asprintf(&name, "%s/%u/%s", nqn, ns->nsid, identity) > 0);
		uuid_from_name(name, &ns->uuid);
		free(name);
		free(identity);
	}
	if (nguid_is_nil(ns->nguid))
		memcpy(ns->nguid, ns->uuid.bytes, sizeof(ns->nguid));
}

void config_subsystem_derive(struct config_subsystem *subsystem)
{
	struct uuid hash;

	if (subsystem->serial[0] == 0) {
		uuid_from_name(subsystem->nqn, &hash);
		for (unsigned i = 0; i < 6; i++)
			snprintf(subsystem->serial + 2 * i, 3, "%02X", hash.bytes[i]);
		for (unsigned i = 6; i < 10; i++)
			snprintf(subsystem->serial + 2 * i, 3, "%02X", hash.bytes[i + 6]);
	}
	for (unsigned i = 0; i < subsystem->ns_count; i++)
		ns_derive(subsystem->nqn, &subsystem->namespaces[i]);
}
