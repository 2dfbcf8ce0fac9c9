/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft ctl` port and ana: the ports where the target listens, and the ANA states of their groups.
 * Main thread.
 */
#include "base/check.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "config/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ctl_port_list(struct ctl *ctl)
{
	static const char *const titles[] = {">ID",        "TRANSPORT",      "LISTENING",
					     "SUBSYSTEMS", "DISCOVERY ONLY", NULL};
	json_t *answer = ctl_get(ctl, ctl_path("/ports", NULL, NULL, NULL));
	struct ctl_table table;
	json_t *port;
	size_t i;

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_table_begin(&table, titles);
		json_array_foreach(json_object_get(answer, "ports"), i, port)
		{
			bool has_list = json_object_get(port, "subsystems") != NULL;
			char id[16], transport[16], listening[64], offers[4096], only[8];

			ctl_table_row(
				&table,
				(const char *const[]){
					ctl_text(port, "id", id, sizeof(id)),
					ctl_text(port, "transport", transport, sizeof(transport)),
					ctl_text(port, "listening", listening, sizeof(listening)),
					has_list ? ctl_text(port, "subsystems", offers,
							    sizeof(offers))
						 : "all",
					ctl_text(port, "discovery", only, sizeof(only))});
		}
		ctl_table_end(&table, "no ports");
	}
	json_decref(answer);
	return CLI_OK;
}

/* Also shows the address on which the port listens, because service 0 means any free port. */
static void service_show(const json_t *answer)
{
	ctl_field_show(answer, &config_port_object, "service");
	if (json_object_get(answer, "listening"))
		ctl_field_show(answer, &config_port_object, "listening");
}

static void ana_show(const json_t *answer)
{
	char text[32];
	json_t *group;
	size_t i;

	json_array_foreach(json_object_get(answer, "ana"), i, group)
		printf("%-*s group %llu %s\n", ctl_key_width(&config_port_object), "ana",
		       (unsigned long long)ctl_number(group, "group"),
		       ctl_text(group, "state", text, sizeof(text)));
}

int ctl_port_show(struct ctl *ctl)
{
	/* ANA groups are printed after all fields. */
	static const struct ctl_special specials[] = {
		{"service", service_show}, {"ana", NULL}, {NULL, NULL}};
	json_t *answer = ctl_get(ctl, ctl_path("/ports/*", ctl->words[0], NULL, NULL));

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_object_show(answer, &config_port_object, specials);
		ana_show(answer);
	}
	json_decref(answer);
	return CLI_OK;
}

int ctl_port_add(struct ctl *ctl)
{
	return ctl_print_change(
		ctl, ctl_send(ctl, "POST", ctl_path("/ports", NULL, NULL, NULL), ctl->fields));
}

int ctl_port_set(struct ctl *ctl)
{
	return ctl_print_change(ctl, ctl_send(ctl, "PATCH",
					      ctl_path("/ports/*", ctl->words[0], NULL, NULL),
					      ctl->fields));
}

int ctl_port_remove(struct ctl *ctl)
{
	return ctl_print_change(
		ctl,
		ctl_send(ctl, "DELETE", ctl_path("/ports/*", ctl->words[0], NULL, NULL), NULL));
}

/* ---- ANA ------------------------------------------------------------------------------------ */

/* The groups of all ports as one answer; each has the ID of its port. */
static json_t *groups_of_all(struct ctl *ctl)
{
	json_t *answer = ctl_get(ctl, ctl_path("/ports", NULL, NULL, NULL));
	json_t *all = json_array();
	json_t *port, *group, *part;
	size_t p, g;

	json_array_foreach(json_object_get(answer, "ports"), p, port)
	{
		char id[16];

		ctl_text(port, "id", id, sizeof(id));
		part = ctl_get(ctl, ctl_path("/ports/*/ana", id, NULL, NULL));
		json_array_foreach(json_object_get(part, "groups"), g, group)
		{
			json_object_set(group, "port", json_object_get(port, "id"));
			json_array_append(all, group);
		}
		json_decref(part);
	}
	if (!answer) {
		json_decref(all);
		return NULL;
	}
	json_decref(answer);
	return json_pack("{s:o}", "groups", all);
}

int ctl_ana_list(struct ctl *ctl)
{
	static const char *const titles[] = {">PORT", ">GROUP", "STATE", NULL};
	json_t *answer = ctl->word_count > 0
				 ? ctl_get(ctl, ctl_path("/ports/*/ana", ctl->words[0], NULL, NULL))
				 : groups_of_all(ctl);
	struct ctl_table table;
	json_t *group;
	size_t i;

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_table_begin(&table, titles);
		json_array_foreach(json_object_get(answer, "groups"), i, group)
		{
			char port[16], number[16], state[32];

			ctl_table_row(&table,
				      (const char *const[]){
					      ctl->word_count > 0
						      ? ctl->words[0]
						      : ctl_text(group, "port", port, sizeof(port)),
					      ctl_text(group, "group", number, sizeof(number)),
					      ctl_text(group, "state", state, sizeof(state))});
		}
		ctl_table_end(&table, "no groups");
	}
	json_decref(answer);
	return CLI_OK;
}

int ctl_ana_set(struct ctl *ctl)
{
	json_object_set_new(ctl->fields, "state", json_string(ctl->words[2]));
	return ctl_print_change(
		ctl,
		ctl_send(ctl, "PUT", ctl_path("/ports/*/ana/*", ctl->words[0], ctl->words[1], NULL),
			 ctl->fields));
}
