import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')
const importLine = /^(?:import|export)\s+(type\s+)?(?:[^']*?\sfrom\s+)?'([^']+)'/gm

export type Import = { readonly from: string; readonly to: string; readonly typeOnly: boolean }

const filesUnder = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name))

export const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')

/** Every file of the program, by its path from the root. */
export const files = [...filesUnder('src'), ...filesUnder('projections')]

/** The imports of a file: packages by name, files by their path from the root. */
export const importsOf = (file: string): Import[] =>
  [...textOf(file).matchAll(importLine)].map(([, type, to = '']) => ({
    from: file,
    to: to.startsWith('.') ? relative(root, resolve(root, dirname(file), to)) : to,
    typeOnly: type !== undefined,
  }))

export const imports = files.flatMap(importsOf)
