/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's NQN and identifier from /etc/nvme, where nvme-cli keeps them. Without these files both
 * are derived from the machine ID, so that the host is the same on the next run; the derived values
 * do not disclose the machine ID. Any thread that may read files. No value is cached.
 */
#include "lib/host_names.h"

#include "base/text.h"
#include "wire/nqn.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Reads the first line of a file, without its end. False: no file, or an empty line. */
static bool line_read(const char *path, char *text, size_t text_bytes)
{
	FILE *file = fopen(path, "re");
	bool is_read;

	if (file == NULL)
		return false;
	is_read = fgets(text, (int)text_bytes, file) != NULL;
	fclose(file);
	if (is_read)
		text[strcspn(text, "\r\n")] = '\0';
	return is_read && text[0] != '\0';
}

static void machine_uuid(struct uuid *ret_uuid)
{
	char line[256], name[300];

	if (!line_read("/etc/machine-id", line, sizeof(line)) &&
	    !line_read("/proc/sys/kernel/hostname", line, sizeof(line)))
		text_copy(line, sizeof(line), "unnamed");
	snprintf(name, sizeof(name), "weft host of %s", line);
	uuid_from_name(name, ret_uuid);
}

void host_names_nqn(char ret_nqn[NVME_NQN_BYTES])
{
	char line[256], text[UUID_TEXT_BYTES];
	struct uuid machine;

	if (line_read("/etc/nvme/hostnqn", line, sizeof(line)) && nqn_problem(line) == NULL) {
		text_copy(ret_nqn, NVME_NQN_BYTES, line);
		return;
	}
	machine_uuid(&machine);
	snprintf(ret_nqn, NVME_NQN_BYTES, "nqn.2014-08.org.nvmexpress:uuid:%s",
		 uuid_format(&machine, text));
}

void host_names_id(struct uuid *ret_id)
{
	char line[256];

	if (!line_read("/etc/nvme/hostid", line, sizeof(line)) || uuid_parse(line, ret_id) != 0)
		machine_uuid(ret_id);
}
