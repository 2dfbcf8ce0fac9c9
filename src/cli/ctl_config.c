/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft ctl` export, apply and import: the whole document of desired state. Main thread.
 *
 * A file is written under a temporary name and renamed, so that no reader sees half of it.
 */
#include "base/json_text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "cli/print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file_write(const json_t *document, const char *path)
{
	char *beside = NULL;
	FILE *file = NULL;
	bool is_good = false;

	if (asprintf(&beside, "%s.new", path) >= 0)
		file = fopen(beside, "we");
	if (file) {
		is_good = json_dumpf(document, file, JSON_TEXT_FLAGS) == 0 &&
			  fputc('\n', file) != EOF && fflush(file) == 0 && fsync(fileno(file)) == 0;
		is_good = fclose(file) == 0 && is_good && rename(beside, path) == 0;
		if (!is_good)
			unlink(beside);
	}
	if (!is_good)
		tool_error("ctl", "cannot write %s: %s", path, strerror(errno));
	free(beside);
	return is_good ? 0 : -1;
}

int ctl_export(struct ctl *ctl)
{
	json_t *answer = ctl_get(ctl, ctl_path("/config", NULL, NULL, NULL));
	int res = 0;

	if (!answer)
		return CLI_FAILED;
	if (ctl->word_count > 0 && strcmp(ctl->words[0], "-") != 0) {
		res = file_write(answer, ctl->words[0]);
	} else {
		cli_json_print(answer);
	}
	json_decref(answer);
	return res < 0 ? CLI_FAILED : CLI_OK;
}

/* NULL after a message. */
static json_t *file_read(const char *path)
{
	bool is_stdin = strcmp(path, "-") == 0;
	FILE *file = is_stdin ? stdin : fopen(path, "re");
	json_error_t error;
	json_t *document;

	if (!file) {
		tool_error("ctl", "%s: %s", path, strerror(errno));
		return NULL;
	}
	document = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	if (!document)
		tool_error("ctl", "%s: line %d, column %d: %s", path, error.line, error.column,
			   error.text);
	if (!is_stdin)
		fclose(file);
	return document;
}

int ctl_apply(struct ctl *ctl)
{
	json_t *document = file_read(ctl->words[0]);
	json_t *answer;

	if (!document)
		return CLI_FAILED;
	answer = ctl_send(ctl, "PUT", ctl_path("/config", NULL, NULL, NULL), document);
	json_decref(document);
	return ctl_print_change(ctl, answer);
}

int ctl_import(struct ctl *ctl)
{
	json_t *document = file_read(ctl->words[0]);
	json_t *answer;

	if (!document)
		return CLI_FAILED;
	answer = ctl_send(ctl, "POST", ctl_path("/config/import?apply=true", NULL, NULL, NULL),
			  document);
	json_decref(document);
	return ctl_print_change(ctl, answer);
}
