/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft ctl`: the table of its commands, and the search for the requested command. A client of the
 * REST API and nothing more. Main thread.
 */
#include "base/check.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

static const struct ctl_subcommand commands[] = {
	{"status", NULL, ctl_status, "", 0, 0, 0, "version, generation, reactors, counters"},
	{"health", NULL, ctl_health, "[--acknowledge]", 0, 0, CTL_ACKNOWLEDGE,
	 "ok, or a list of problems (exit status 1)"},
	{"audit", NULL, ctl_audit, "[COUNT]", 0, 1, 0, "list changes of the desired state"},
	{"history", NULL, ctl_history, "[GENERATION]", 0, 1, 0,
	 "list saved generations, or show one"},
	{"rollback", NULL, ctl_rollback, "GENERATION", 1, 1, CTL_CHANGE,
	 "return to an earlier generation"},
	{"export", NULL, ctl_export, "[FILE]", 0, 1, 0, "write the desired state as JSON"},
	{"apply", NULL, ctl_apply, "FILE", 1, 1, CTL_CHANGE,
	 "replace the desired state (- for stdin)"},
	{"import", NULL, ctl_import, "FILE", 1, 1, CTL_CHANGE,
	 "replace the desired state by a translated\n"
	 "                                       nvmetcli file"},
	{"subsystem", "list", ctl_subsystem_list, "", 0, 0, 0, "list subsystems"},
	{"subsystem", "show", ctl_subsystem_show, "NQN", 1, 1, 0,
	 "show a subsystem and its namespaces"},
	{"subsystem", "add", ctl_subsystem_add, "NQN [FIELD]...", 1, 1, CTL_SUBSYSTEM | CTL_CHANGE,
	 "add a subsystem"},
	{"subsystem", "set", ctl_subsystem_set, "NQN FIELD...", 1, 1, CTL_SUBSYSTEM | CTL_CHANGE,
	 "change fields of a subsystem"},
	{"subsystem", "remove", ctl_subsystem_remove, "NQN", 1, 1, CTL_CHANGE,
	 "remove a subsystem, disconnect its hosts"},
	{"namespace", "list", ctl_ns_list, "[NQN]", 0, 1, 0,
	 "list namespaces of one or all subsystems"},
	{"namespace", "show", ctl_ns_show, "NQN NSID", 2, 2, 0,
	 "show a namespace and its counters"},
	{"namespace", "add", ctl_ns_add, "NQN --media SPEC [FIELD]...", 1, 1, CTL_NS | CTL_CHANGE,
	 "add a namespace"},
	{"namespace", "set", ctl_ns_set, "NQN NSID FIELD...", 2, 2, CTL_NS | CTL_CHANGE,
	 "change fields of a namespace"},
	{"namespace", "resize", ctl_ns_resize, "NQN NSID SIZE", 3, 3, CTL_CHANGE,
	 "grow a namespace, for example to 20G"},
	{"namespace", "recheck", ctl_ns_recheck, "NQN NSID", 2, 2, CTL_CHANGE,
	 "serve a lost namespace whose data are\n"
	 "                                       restored"},
	{"namespace", "recreate", ctl_ns_recreate, "NQN NSID", 2, 2, CTL_CHANGE,
	 "give up the data of a lost namespace:\n"
	 "                                       empty file, new UUID"},
	{"namespace", "remove", ctl_ns_remove, "NQN NSID [--delete-data]", 2, 2,
	 CTL_CHANGE | CTL_DELETE_DATA, "remove a namespace; the file stays"},
	{"host", "list", ctl_host_list, "NQN", 1, 1, 0, "list allowed hosts"},
	{"host", "add", ctl_host_add, "NQN HOST", 2, 2, CTL_CHANGE, "allow a host"},
	{"host", "remove", ctl_host_remove, "NQN HOST", 2, 2, CTL_CHANGE, "stop allowing a host"},
	{"host", "rights", ctl_host_rights, "NQN HOST|any RIGHTS", 3, 3, CTL_CHANGE,
	 "set a host's rights: all, none or some of\n"
	 "                                       write-protect,format,label,namespaces"},
	{"port", "list", ctl_port_list, "", 0, 0, 0, "list ports"},
	{"port", "show", ctl_port_show, "ID", 1, 1, 0, "show a port"},
	{"port", "add", ctl_port_add, "[FIELD]...", 0, 0, CTL_PORT | CTL_CHANGE, "add a port"},
	{"port", "set", ctl_port_set, "ID FIELD...", 1, 1, CTL_PORT | CTL_CHANGE,
	 "change fields of a port"},
	{"port", "remove", ctl_port_remove, "ID", 1, 1, CTL_CHANGE,
	 "remove a port, disconnect its hosts"},
	{"ana", "list", ctl_ana_list, "[ID]", 0, 1, 0, "list ANA states by port and group"},
	{"ana", "set", ctl_ana_set, "ID GROUP STATE", 3, 3, CTL_CHANGE,
	 "set the state of an ANA group: optimized,\n"
	 "                                       non-optimized, inaccessible,\n"
	 "                                       persistent-loss or change"},
	{"connections", NULL, ctl_connections, "", 0, 0, 0, "list connected hosts"},
	{"peers", NULL, ctl_peers, "", 0, 0, 0, "list the other members of the cluster"},
	{"removed", NULL, ctl_removed, "", 0, 0, 0, "list removed namespaces and kept state"},
	{"removed", "drop", ctl_removed_drop, "UUID", 1, 1, 0,
	 "drop a removed namespace and kept state"},
	{"reservations", NULL, ctl_reservations, "", 0, 0, 0,
	 "list namespaces with registered hosts"},
	{"reservations", "clear", ctl_reservation_clear, "NQN NSID", 2, 2, 0,
	 "unregister all hosts of a namespace"},
};

const struct ctl_subcommand *ctl_subcommands(unsigned *ret_count)
{
	*ret_count = ARRAY_LEN(commands);
	return commands;
}

static const char *noun_of(const char *word)
{
	if (strcmp(word, "ns") == 0)
		return "namespace";
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i].noun, word) == 0)
			return commands[i].noun;
	}
	return NULL;
}

static const char *noun_at(const void *context, size_t index)
{
	return index < ARRAY_LEN(commands) ? commands[index].noun : NULL;
}

static void noun_unknown(const char *word)
{
	const char *meant = cli_suggest(word, noun_at, NULL);

	if (meant)
		cli_usage_error("ctl", "unknown command \"%s\"; did you mean %s?", word, meant);
	else
		cli_usage_error("ctl", "unknown command \"%s\"", word);
}

/* Reports a missing or unknown verb, with the verbs of the noun and a suggestion. */
static void verb_unknown(const char *noun, const char *verb)
{
	char verbs[128] = "", meant[32], list[160] = "";

	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i].noun, noun) != 0)
			continue;
		snprintf(verbs + strlen(verbs), sizeof(verbs) - strlen(verbs), "%s%s",
			 verbs[0] ? " " : "", commands[i].verb);
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			 list[0] ? ", " : "", commands[i].verb);
	}
	if (!verb)
		cli_usage_error("ctl", "\"%s\" needs a second word: %s", noun, list);
	else if (cli_suggest_word(verb, verbs, meant, sizeof(meant)))
		cli_usage_error("ctl", "unknown command \"%s %s\" (%s); did you mean %s?", noun,
				verb, list, meant);
	else
		cli_usage_error("ctl", "unknown command \"%s %s\" (%s)", noun, verb, list);
}

/* Finds the command and removes its noun and verb from ctl->words. NULL after a message. */
static const struct ctl_subcommand *command_find(struct ctl *ctl)
{
	const char *noun = ctl->word_count > 0 ? noun_of(ctl->words[0]) : NULL;
	const char *verb = ctl->word_count > 1 ? ctl->words[1] : NULL;
	const struct ctl_subcommand *alone = NULL;

	if (!noun) {
		if (ctl->word_count > 0)
			noun_unknown(ctl->words[0]);
		else
			cli_usage_error("ctl", "a command is missing");
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		const struct ctl_subcommand *command = &commands[i];

		if (strcmp(command->noun, noun) != 0)
			continue;
		if (!command->verb) {
			alone = command;
		} else if (verb && strcmp(command->verb, verb) == 0) {
			ctl->word_count -= 2;
			memmove(ctl->words, ctl->words + 2,
				ctl->word_count * sizeof(ctl->words[0]));
			return command;
		}
	}
	if (!alone) {
		verb_unknown(noun, verb);
		return NULL;
	}
	ctl->word_count--;
	memmove(ctl->words, ctl->words + 1, ctl->word_count * sizeof(ctl->words[0]));
	return alone;
}

/* Checks words that must be numbers, recognized by their names in the table. 0 or, after a message,
 * -1. */
static int numbers_check(const struct ctl *ctl, const struct ctl_subcommand *command)
{
	static const char *const names[] = {"NSID", "ID", "GROUP", "COUNT"};
	const char *name = command->words;
	uint64_t number;

	for (unsigned i = 0; i < ctl->word_count; i++) {
		size_t len;

		name += strspn(name, " [");
		len = strcspn(name, " ]");
		for (size_t k = 0; k < ARRAY_LEN(names); k++) {
			if (strlen(names[k]) != len || strncmp(name, names[k], len) != 0 ||
			    text_parse_u64(ctl->words[i], UINT32_MAX, &number) == 0)
				continue;
			cli_usage_error("ctl", "%s must be a number, not \"%s\"", names[k],
					ctl->words[i]);
			return -1;
		}
		name += len;
	}
	return 0;
}

/* 0 or, after a message, -1. */
static int command_check(const struct ctl *ctl, const struct ctl_subcommand *command)
{
	if (ctl->word_count >= command->words_min && ctl->word_count <= command->words_max)
		return ctl_args_fit(ctl, command) ? numbers_check(ctl, command) : -1;
	cli_usage_error("ctl", "usage: weft ctl %s%s%s %s", command->noun, command->verb ? " " : "",
			command->verb ? command->verb : "", command->words);
	return -1;
}

int cmd_ctl(int argc, char **argv)
{
	const struct ctl_subcommand *command;
	struct ctl ctl;
	int status;

	if (ctl_args_parse(argc, argv, &ctl, &status)) {
		if (ctl.wants_help) {
			ctl_help_print(ctl.word_count > 0 ? noun_of(ctl.words[0]) : NULL);
			status = CLI_OK;
		} else {
			status = CLI_USAGE;
			command = command_find(&ctl);
			if (command && command_check(&ctl, command) == 0) {
				ctl.edits_element = command->verb != NULL;
				status = command->run(&ctl);
			}
		}
	}
	ctl_args_free(&ctl);
	return status;
}
