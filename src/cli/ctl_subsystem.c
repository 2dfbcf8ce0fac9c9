/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft ctl` subsystem and host: lists and shows subsystems and the hosts that may connect, and
 * changes both. Fields are sent as given; the target checks them. Main thread.
 */
#include "base/check.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "cli/print.h"
#include "config/config.h"
#include "config/fields.h"

#include <stdio.h>
#include <stdlib.h>

int ctl_subsystem_list(struct ctl *ctl)
{
	static const char *const titles[] = {"NQN",         "SERIAL", "MODEL",
					     ">NAMESPACES", "HOSTS",  NULL};
	json_t *answer = ctl_get(ctl, ctl_path("/subsystems", NULL, NULL, NULL));
	struct ctl_table table;
	json_t *subsystem;
	size_t i;

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		ctl_table_begin(&table, titles);
		json_array_foreach(json_object_get(answer, "subsystems"), i, subsystem)
		{
			const json_t *any = json_object_get(subsystem, "allow_any_host");
			char nqn[256], serial[32], model[48], count[16], listed[4096];

			ctl_table_row(&table,
				      (const char *const[]){
					      ctl_text(subsystem, "nqn", nqn, sizeof(nqn)),
					      ctl_text(subsystem, "serial", serial, sizeof(serial)),
					      ctl_text(subsystem, "model", model, sizeof(model)),
					      ctl_text(subsystem, "namespace_count", count,
						       sizeof(count)),
					      json_is_true(any)
						      ? "any"
						      : ctl_text(subsystem, "hosts", listed,
								 sizeof(listed))});
		}
		ctl_table_end(&table, "no subsystems");
	}
	json_decref(answer);
	return CLI_OK;
}

static void hosts_show(const json_t *answer)
{
	const json_t *hosts = json_object_get(answer, "hosts");
	bool is_any = json_is_true(json_object_get(answer, "allow_any_host"));
	int width = ctl_key_width(&config_subsystem_object);

	if (is_any || json_array_size(hosts) == 0)
		printf("%-*s %s\n", width, "hosts", is_any ? "any" : "none");
	for (size_t i = 0; !is_any && i < json_array_size(hosts); i++)
		printf("%-*s %s\n", width, i == 0 ? "hosts" : "",
		       cli_shown_json(json_array_get(hosts, i)));
}

/* Prints "rights NQN or any: format,label" for each host. */
static void rights_show(const json_t *answer)
{
	json_t *rights = json_object_get(answer, "rights");
	const char *host;
	json_t *list;

	json_object_foreach(rights, host, list)
	{
		printf("%-*s %s: ", ctl_key_width(&config_subsystem_object), "rights",
		       cli_shown(host));
		for (size_t i = 0; i < json_array_size(list); i++)
			printf("%s%s", i == 0 ? "" : ",", cli_shown_json(json_array_get(list, i)));
		putchar('\n');
	}
}

static void namespaces_show(const json_t *answer)
{
	char text[4096];
	json_t *ns;
	size_t i;

	json_array_foreach(json_object_get(answer, "namespaces"), i, ns)
	{
		printf("%-*s %llu  %s\n", ctl_key_width(&config_subsystem_object), "namespace",
		       (unsigned long long)ctl_number(ns, "nsid"),
		       ctl_text(ns, "media", text, sizeof(text)));
	}
}

int ctl_subsystem_show(struct ctl *ctl)
{
	static const struct ctl_special specials[] = {{"allow_any_host", NULL},
						      {"hosts", hosts_show},
						      {"rights", rights_show},
						      {"namespaces", namespaces_show},
						      {NULL, NULL}};
	json_t *answer = ctl_get(ctl, ctl_path("/subsystems/*", ctl->words[0], NULL, NULL));

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer))
		ctl_object_show(answer, &config_subsystem_object, specials);
	json_decref(answer);
	return CLI_OK;
}

/* --host any becomes allow_any_host and an empty list. */
static void access_fold(struct ctl *ctl)
{
	if (!json_is_string(json_object_get(ctl->fields, "hosts")))
		return;
	json_object_set_new(ctl->fields, "hosts", json_array());
	json_object_set_new(ctl->fields, "allow_any_host", json_true());
}

int ctl_subsystem_add(struct ctl *ctl)
{
	access_fold(ctl);
	json_object_set_new(ctl->fields, "nqn", json_string(ctl->words[0]));
	return ctl_print_change(
		ctl, ctl_send(ctl, "POST", ctl_path("/subsystems", NULL, NULL, NULL), ctl->fields));
}

int ctl_subsystem_set(struct ctl *ctl)
{
	access_fold(ctl);
	return ctl_print_change(ctl, ctl_send(ctl, "PATCH",
					      ctl_path("/subsystems/*", ctl->words[0], NULL, NULL),
					      ctl->fields));
}

int ctl_subsystem_remove(struct ctl *ctl)
{
	return ctl_print_change(ctl, ctl_send(ctl, "DELETE",
					      ctl_path("/subsystems/*", ctl->words[0], NULL, NULL),
					      NULL));
}

int ctl_host_list(struct ctl *ctl)
{
	json_t *answer = ctl_get(ctl, ctl_path("/subsystems/*/hosts", ctl->words[0], NULL, NULL));

	if (!answer)
		return CLI_FAILED;
	if (!ctl_print_json(ctl, answer)) {
		hosts_show(answer);
		rights_show(answer);
	}
	json_decref(answer);
	return CLI_OK;
}

/* Sends the whole list of one host's rights, so that repeating the command changes nothing. */
int ctl_host_rights(struct ctl *ctl)
{
	uint32_t rights = 0;
	char *problem = NULL;
	json_t *list;

	if (config_rights_split(ctl->words[2], &rights, &problem) < 0) {
		cli_usage_error(
			"ctl",
			"unknown right \"%s\" (write-protect, format, label, namespaces, all, "
			"none)",
			problem ? problem : "");
		free(problem);
		return CLI_USAGE;
	}
	list = rights == 0 ? json_null() : config_rights_to_json(rights);
	json_object_set_new(ctl->fields, "rights", json_pack("{s:o}", ctl->words[1], list));
	return ctl_subsystem_set(ctl);
}

int ctl_host_add(struct ctl *ctl)
{
	json_object_set_new(ctl->fields, "nqn", json_string(ctl->words[1]));
	return ctl_print_change(ctl,
				ctl_send(ctl, "POST",
					 ctl_path("/subsystems/*/hosts", ctl->words[0], NULL, NULL),
					 ctl->fields));
}

int ctl_host_remove(struct ctl *ctl)
{
	return ctl_print_change(
		ctl, ctl_send(ctl, "DELETE",
			      ctl_path("/subsystems/*/hosts/*", ctl->words[0], ctl->words[1], NULL),
			      NULL));
}
