/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of pools. A namespace that a host creates becomes FOLDER/NGUID.img, a sparse file that
 * is created when its medium is opened. The file is removed only after the change that deletes the
 * namespace is kept. A file that a crash leaves behind is logged at the next start, never removed
 * unasked.
 *
 * Control thread only; blocks.
 */
#include "daemon/pool.h"

#include "base/folder_sync.h"
#include "base/log.h"
#include "config/config_parse.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NGUID_TEXT_BYTES 33

int pool_folder_prepare(const char *folder)
{
	struct stat st;

	if (mkdir(folder, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (stat(folder, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

static void nguid_format(const uint8_t nguid[16], char text[NGUID_TEXT_BYTES])
{
	for (unsigned i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", nguid[i]);
}

char *pool_file_path(const char *folder, const uint8_t nguid[16])
{
	size_t len = strlen(folder);
	char name[NGUID_TEXT_BYTES];
	char *path;

	while (len > 1 && folder[len - 1] == '/')
		len--;
	nguid_format(nguid, name);
	if (asprintf(&path, "%.*s/%s" POOL_SUFFIX, (int)len, folder, name) < 0)
		return NULL;
	return path;
}

bool pool_file_is_ours(const char *folder, const char *path, const uint8_t nguid[16])
{
	char name[NGUID_TEXT_BYTES + sizeof(POOL_SUFFIX)], nguid_text[NGUID_TEXT_BYTES];

	nguid_format(nguid, nguid_text);
	snprintf(name, sizeof(name), "%s" POOL_SUFFIX, nguid_text);
	return config_path_in_folder(path, folder) && strcmp(strrchr(path, '/') + 1, name) == 0;
}

int pool_file_remove(const char *folder, const char *path, const uint8_t nguid[16])
{
	struct stat st;

	if (!pool_file_is_ours(folder, path, nguid))
		return -EPERM;
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode))
		return -EPERM;
	if (unlink(path) < 0)
		return -errno;
	return folder_sync(folder);
}

/* Whether a pool could have given this name: 32 hexadecimal digits and the suffix. */
static bool is_pool_name(const char *name)
{
	size_t digits = strspn(name, "0123456789abcdef");

	return digits == NGUID_TEXT_BYTES - 1 && strcmp(name + digits, POOL_SUFFIX) == 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the files that namespaces of any subsystem have in this folder, sorted. */
static char **folder_names(const struct config *config, const char *folder, size_t *ret_count)
{
	char **names;
	size_t count = 0;

	for (unsigned s = 0; s < config->subsystem_count; s++)
		count += config->subsystems[s].ns_count;
	names = calloc(count + 1, sizeof(char *));
	count = 0;
	for (unsigned s = 0; names && s < config->subsystem_count; s++) {
		for (unsigned i = 0; i < config->subsystems[s].ns_count; i++) {
			char *path = config_media_path(config->subsystems[s].namespaces[i].media);

			if (path && config_path_in_folder(path, folder)) {
				char *name = strdup(strrchr(path, '/') + 1);

				if (name)
					names[count++] = name;
			}
			free(path);
		}
	}
	if (count > 1)
		qsort(names, count, sizeof(char *), by_text);
	*ret_count = count;
	return names;
}

static unsigned folder_report(const struct config *config, const char *folder)
{
	unsigned found = 0;
	size_t count = 0;
	char **names = folder_names(config, folder, &count);
	DIR *dir = names ? opendir(folder) : NULL;
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		const char *name = entry->d_name;

		if (!is_pool_name(name) ||
		    (count > 0 && bsearch(&name, names, count, sizeof(char *), by_text)))
			continue;
		found++;
		log_warn("control",
			 "pool %s: %s belongs to no namespace: its namespace was removed, or never "
			 "completed; remove the file, or use it as a medium",
			 folder, name);
	}
	if (dir)
		closedir(dir);
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
	return found;
}

unsigned pool_report_orphans(const struct config *config)
{
	unsigned found = 0;

	for (unsigned s = 0; s < config->subsystem_count; s++) {
		if (config->subsystems[s].pool_folder)
			found += folder_report(config, config->subsystems[s].pool_folder);
	}
	return found;
}
