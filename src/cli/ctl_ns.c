/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft ctl` namespace: lists and shows namespaces with their counters; adds, changes, resizes and
 * removes them. Main thread.
 */
#include "base/check.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "cli/print.h"
#include "config/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *ns_path(const struct ctl *ctl)
{
	return ctl_path("/subsystems/*/namespaces/*", ctl->words[0], ctl->words[1], NULL);
}

static const char *size_text(const json_t *ns, char *text, size_t text_bytes)
{
	const json_t *live = json_object_get(ns, "live");

	if (!live)
		return "-";
	return text_format_size(ctl_number(live, "size_bytes"), text, text_bytes);
}

static void ns_row(struct ctl_table *table, const char *nqn, const json_t *ns)
{
	char nsid[16], size[32], block[16], group[16], protect[32], media[512];

	ctl_table_row(table,
		      (const char *const[]){nqn, ctl_text(ns, "nsid", nsid, sizeof(nsid)),
					    size_text(ns, size, sizeof(size)),
					    ctl_text(json_object_get(ns, "live"), "block_bytes",
						     block, sizeof(block)),
					    ctl_text(ns, "ana_group", group, sizeof(group)),
					    ctl_text(ns, "write_protect", protect, sizeof(protect)),
					    ctl_text(ns, "media", media, sizeof(media))});
}

/* The namespaces of all subsystems as one answer; each has the NQN of its subsystem. */
static json_t *namespaces_of_all(struct ctl *ctl)
{
	json_t *answer = ctl_get(ctl, ctl_path("/subsystems", NULL, NULL, NULL));
	json_t *all = json_array();
	json_t *subsystem, *ns, *part;
	size_t s, n;

	json_array_foreach(json_object_get(answer, "subsystems"), s, subsystem)
	{
		const json_t *nqn = json_object_get(subsystem, "nqn");

		part = ctl_get(ctl, ctl_path("/subsystems/*/namespaces", json_string_value(nqn),
					     NULL, NULL));
		json_array_foreach(json_object_get(part, "namespaces"), n, ns)
		{
			json_object_set(ns, "subsystem", (json_t *)nqn);
			json_array_append(all, ns);
		}
		json_decref(part);
	}
	if (!answer) {
		json_decref(all);
		return NULL;
	}
	json_decref(answer);
	return json_pack("{s:o}", "namespaces", all);
}

int ctl_ns_list(struct ctl *ctl)
{
	static const char *const titles[] = {"SUBSYSTEM",  ">NSID",   ">SIZE", ">BLOCK",
					     ">ANA GROUP", "PROTECT", "MEDIA", NULL};
	json_t *answer = ctl->word_count > 0 ? ctl_get(ctl, ctl_path("/subsystems/*/namespaces",
								     ctl->words[0], NULL, NULL))
					     : namespaces_of_all(ctl);
	struct ctl_table table;
	json_t *ns;
	size_t i;

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_table_begin(&table, titles);
		json_array_foreach(json_object_get(answer, "namespaces"), i, ns)
		{
			char nqn[256];

			ns_row(&table,
			       ctl->word_count > 0 ? ctl->words[0]
						   : ctl_text(ns, "subsystem", nqn, sizeof(nqn)),
			       ns);
		}
		ctl_table_end(&table, "no namespaces");
	}
	json_decref(answer);
	return CLI_OK;
}

static void hosts_show(const json_t *answer)
{
	if (json_object_get(answer, "hosts"))
		ctl_field_show(answer, &config_ns_object, "hosts");
	else
		printf("%-*s any\n", ctl_key_width(&config_ns_object), "hosts");
}

static void hidden_show(const json_t *answer)
{
	ctl_field_show(answer, &config_ns_object, "hidden_from");
}

/* Prints the live state of a namespace; NULL: the namespace is not served. */
static void live_show(const json_t *live)
{
	static const char *const states[] = {"formatting", "lost"};
	static const char *const counters[] = {"read_commands", "write_commands", "bytes_read",
					       "bytes_written", "media_errors"};

	if (!live)
		return;
	ctl_field_show(live, &config_ns_object, "block_bytes");
	for (unsigned i = 0; i < ARRAY_LEN(states); i++)
		if (json_is_true(json_object_get(live, states[i])))
			ctl_field_show(live, &config_ns_object, states[i]);
	for (unsigned i = 0; i < ARRAY_LEN(counters); i++)
		ctl_field_show(json_object_get(live, "counters"), &config_ns_object, counters[i]);
}

int ctl_ns_show(struct ctl *ctl)
{
	static const struct ctl_special specials[] = {
		{"hosts", hosts_show}, {"hidden_from", hidden_show}, {NULL, NULL}};
	json_t *answer = ctl_get(ctl, ns_path(ctl));
	char text[32];

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_object_show(answer, &config_ns_object, specials);
		printf("%-*s %s\n", ctl_key_width(&config_ns_object), "size",
		       size_text(answer, text, sizeof(text)));
		live_show(json_object_get(answer, "live"));
	}
	json_decref(answer);
	return CLI_OK;
}

int ctl_ns_add(struct ctl *ctl)
{
	/* --host any: send no list of hosts. */
	if (json_is_string(json_object_get(ctl->fields, "hosts")))
		json_object_del(ctl->fields, "hosts");
	return ctl_print_change(
		ctl, ctl_send(ctl, "POST",
			      ctl_path("/subsystems/*/namespaces", ctl->words[0], NULL, NULL),
			      ctl->fields));
}

int ctl_ns_set(struct ctl *ctl)
{
	if (json_is_string(json_object_get(ctl->fields, "hosts")))
		json_object_set_new(ctl->fields, "hosts", json_null());
	return ctl_print_change(ctl, ctl_send(ctl, "PATCH", ns_path(ctl), ctl->fields));
}

int ctl_ns_resize(struct ctl *ctl)
{
	json_object_set_new(ctl->fields, "size", json_string(ctl->words[2]));
	return ctl_ns_set(ctl);
}

int ctl_ns_recheck(struct ctl *ctl)
{
	json_object_set_new(ctl->fields, "recheck", json_true());
	return ctl_ns_set(ctl);
}

int ctl_ns_recreate(struct ctl *ctl)
{
	json_object_set_new(ctl->fields, "recreate", json_true());
	return ctl_ns_set(ctl);
}

int ctl_ns_remove(struct ctl *ctl)
{
	char *path = ns_path(ctl);
	char *full = NULL;
	json_t *answer;
	int status;

	if (!path ||
	    asprintf(&full, "%s%s", path, ctl->deletes_data ? "?delete_data=true" : "") < 0)
		full = NULL;
	free(path);
	answer = full ? ctl_send(ctl, "DELETE", full, NULL) : NULL;
	json_incref(answer);
	status = ctl_print_change(ctl, answer);
	if (answer && !ctl->is_json && !ctl->is_dry_run) {
		const char *data = json_string_value(json_object_get(answer, "data"));
		const char *file = json_string_value(json_object_get(answer, "file"));

		if (file)
			printf("%s: %s\n", cli_shown(data), cli_shown(file));
	}
	json_decref(answer);
	return status;
}
