/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `weft ctl` that are fields of the document: one each, which become a JSON object
 * with the document's keys. What a value may be is the target's business: it tells what is wrong
 * and where. Main thread.
 */
#include "base/text.h"
#include "cli/ctl.h"

#include <string.h>

/* ---- values --------------------------------------------------------------------------------- */

static bool bool_parse(const char *text, bool *ret_value)
{
	*ret_value = strcmp(text, "yes") == 0 || strcmp(text, "true") == 0;
	return *ret_value || strcmp(text, "no") == 0 || strcmp(text, "false") == 0;
}

static json_t *object_below(json_t *object, const char *key, json_t *taken_new)
{
	json_t *below = json_object_get(object, key);

	if (below) {
		json_decref(taken_new);
		return below;
	}
	json_object_set_new(object, key, taken_new);
	return json_object_get(object, key);
}

/* One of a list. 0 or, after a message, -1. */
static int list_take(struct ctl *ctl, const struct cli_given *given, json_t *taken_value)
{
	const struct ctl_detail *field = given->option->detail;
	const char *text = json_string_value(taken_value);
	bool is_any = field->type == FIELD_HOSTS && strcmp(text, "any") == 0;
	const json_t *before = json_object_get(ctl->fields, field->key);

	if (before && (is_any || json_is_string(before))) {
		json_decref(taken_value);
		return cli_given_error(given,
				       "any stands alone: any host, or those that are listed");
	}
	if (is_any)
		return json_object_set_new(ctl->fields, field->key, taken_value);
	object_below(ctl->fields, field->key, json_array());
	if (strcmp(text, "none") != 0)
		json_array_append(json_object_get(ctl->fields, field->key), taken_value);
	json_decref(taken_value);
	return 0;
}

static int field_take(void *to, const struct cli_given *given)
{
	const struct ctl_detail *field = given->option->detail;
	json_t *json = json_string(given->value);
	struct ctl *ctl = to;
	uint64_t number;
	bool value;

	if (!json)
		return cli_given_error(given, "wants text in UTF-8");
	switch (field->type) {
	case FIELD_HOSTS:
	case FIELD_LIST:
		return list_take(ctl, given, json);
	case FIELD_POOL:
		return json_object_set_new(object_below(ctl->fields, "pool", json_object()),
					   field->key, json);
	case FIELD_NUMBER:
		json_decref(json);
		if (text_parse_u64(given->value, INT64_MAX, &number) < 0)
			return cli_given_error(given, "wants a number, not \"%s\"", given->value);
		return json_object_set_new(ctl->fields, field->key, json_integer((int64_t)number));
	case FIELD_BOOL:
		json_decref(json);
		if (!bool_parse(given->value, &value))
			return cli_given_error(given, "wants yes or no, not \"%s\"", given->value);
		return json_object_set_new(ctl->fields, field->key, json_boolean(value));
	default:
		return json_object_set_new(ctl->fields, field->key, json);
	}
}

/* ---- the table ------------------------------------------------------------------------------ */

#define FIELD(type_, key_, takes_, whom_)                                                          \
	.take = field_take, .detail = &(const struct ctl_detail)                                   \
	{                                                                                          \
		takes_, whom_, key_, type_                                                         \
	}
#define OF_SUBSYSTEM(type_, key_) FIELD(type_, key_, CTL_SUBSYSTEM, "subsystems")
#define OF_NS(type_, key_)        FIELD(type_, key_, CTL_NS, "namespaces")
#define OF_PORT(type_, key_)      FIELD(type_, key_, CTL_PORT, "ports")

const struct cli_option ctl_field_options[] = {
	{"serial", 0, "TEXT", "serial number, 1 to 20 characters (random)",
	 OF_SUBSYSTEM(FIELD_TEXT, "serial")},
	{"model", 0, "TEXT", "model, 1 to 40 characters (weft)", OF_SUBSYSTEM(FIELD_TEXT, "model")},
	{"allow-any-host", 0, "{words}", "whether any host may connect (yes without --host)",
	 "yes no", OF_SUBSYSTEM(FIELD_BOOL, "allow_any_host")},
	{"pool-folder", 0, "PATH", "where hosts make namespaces of their own", .is_path = true,
	 OF_SUBSYSTEM(FIELD_POOL, "folder")},
	{"pool-capacity", 0, "SIZE", "what their sizes may add up to, such as 1T",
	 OF_SUBSYSTEM(FIELD_POOL, "capacity")},
	{"host", 0, "NQN|any|none", "a host that may connect, or see the namespace; repeatable",
	 FIELD(FIELD_HOSTS, "hosts", CTL_SUBSYSTEM | CTL_NS, "subsystems and namespaces")},
	{"nsid", 0, "N", "its number in the subsystem (the lowest that is free)",
	 OF_NS(FIELD_NUMBER, "nsid")},
	{"media", 0, "SPEC", "what its blocks live on, as for --ns of weft serve",
	 OF_NS(FIELD_TEXT, "media")},
	{"size", 0, "SIZE", "such as 20G, instead of size= of the media",
	 OF_NS(FIELD_TEXT, "size")},
	{"uuid", 0, "UUID", "its UUID (random)", OF_NS(FIELD_TEXT, "uuid")},
	{"nguid", 0, "HEX", "its NGUID, 32 hexadecimal digits (the UUID's bytes)",
	 OF_NS(FIELD_TEXT, "nguid")},
	{"read-only", 0, "{words}", "whether writes are refused (no)", "yes no",
	 OF_NS(FIELD_BOOL, "read_only")},
	{"ana-group", 0, "N", "ANA group, 1 to 1024 (1)", OF_NS(FIELD_NUMBER, "ana_group")},
	{"hidden-from", 0, "NQN|none", "a host that does not see it all the same; repeatable",
	 OF_NS(FIELD_LIST, "hidden_from")},
	{"write-protect", 0, "{words}", "whether writes are refused, and for how long (none)",
	 "none protected until-power-cycle permanent", OF_NS(FIELD_TEXT, "write_protect")},
	{"private", 0, "{words}", "whether it is one host's at a time (no)", "yes no",
	 OF_NS(FIELD_BOOL, "private")},
	{"clustered", 0, "{words}", "whether other members of the cluster serve it too (no)",
	 "yes no", OF_NS(FIELD_BOOL, "clustered")},
	{"label", 0, "TEXT", "a text for people, at most 256 bytes", OF_NS(FIELD_TEXT, "label")},
	{"id", 0, "N", "its number (the lowest that is free)", OF_PORT(FIELD_NUMBER, "id")},
	{"address", 0, "ADDR", "numeric address to listen on (127.0.0.1)",
	 OF_PORT(FIELD_TEXT, "address")},
	{"service", 0, "PORT", "TCP port, 0 for any that is free (4420)",
	 OF_PORT(FIELD_TEXT, "service")},
	{"advertise", 0, "ADDR", "address for the discovery log, where it is another one",
	 OF_PORT(FIELD_TEXT, "advertise")},
	{"subsystem", 0, "NQN|none", "a subsystem that is offered here (all); repeatable",
	 OF_PORT(FIELD_LIST, "subsystems")},
	{"discovery", 0, "{words}", "whether the port answers discovery alone (no)", "yes no",
	 OF_PORT(FIELD_BOOL, "discovery")},
	{"zero-copy", 0, "{words}", "whether reads are sent from where they lie (off)",
	 "off auto on", OF_PORT(FIELD_TEXT, "zero_copy")},
	{"zero-copy-min-bytes", 0, "N", "from how much data on (65536)",
	 OF_PORT(FIELD_NUMBER, "zero_copy_min_bytes")},
	{NULL},
};

/* By the option's name or the key of the document. */
int ctl_unset_take(void *to, const struct cli_given *given)
{
	struct ctl *ctl = to;

	for (const struct cli_option *option = ctl_field_options; option->name; option++) {
		const struct ctl_detail *field = option->detail;

		if (strcmp(option->name, given->value) != 0 &&
		    strcmp(field->key, given->value) != 0)
			continue;
		ctl_option_note(ctl, option);
		return json_object_set_new(
			ctl->fields, field->type == FIELD_POOL ? "pool" : field->key, json_null());
	}
	return cli_given_error(given, "%s: there is no field of this name", given->value);
}
