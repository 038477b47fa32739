import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { house, type Place, placeOf } from './house.ts'
import { files, imports } from './sources.ts'

const nameOf = ({ floor, room }: Place): string => (floor === room ? floor : `${floor}: ${room}`)

const levels = new Map<string, number>(
  house
    .flatMap(({ floor, rooms }) => rooms.map((room) => nameOf({ floor, room })))
    .map((name, at) => [name, at]),
)

const levelOf = (file: string): number => {
  const level = levels.get(nameOf(placeOf(file)))
  assert.ok(
    level !== undefined,
    `${file} stands in no room of test/architecture/house.ts (${nameOf(placeOf(file))}). Move it into one, or add the room`,
  )
  return level
}

/** Each room with the rooms that it imports, in the order of the table. */
const graph = (): string => {
  const uses = new Map<string, Set<string>>([...levels.keys()].map((name) => [name, new Set()]))
  for (const { from, to } of imports)
    if (to.endsWith('.ts') && levelOf(from) !== levelOf(to))
      uses.get(nameOf(placeOf(from)))?.add(nameOf(placeOf(to)))
  return [...uses]
    .map(
      ([name, used]) =>
        `${name} <- ${[...used].sort((a, b) => levels.get(a)! - levels.get(b)!).join(', ') || '-'}`,
    )
    .join('\n')
}

describe('the floors of the house', () => {
  test('every file stands in a room that the table lists', () => {
    for (const file of files) levelOf(file)
  })

  test('every room of the table holds a file', () => {
    const used = new Set(files.map((file) => nameOf(placeOf(file))))
    assert.deepEqual(
      [...levels.keys()].filter((name) => !used.has(name)),
      [],
    )
  })

  test('a file imports only from its own room and from what the table lists before it', (t) => {
    const broken = imports
      .filter(({ to }) => to.endsWith('.ts'))
      .filter(({ from, to }) => levelOf(to) > levelOf(from))
      .map(
        ({ from, to }) =>
          `${from} (${nameOf(placeOf(from))}) imports ${to} (${nameOf(placeOf(to))}), which is listed after it`,
      )
    t.diagnostic(`the rooms and what each imports:\n${graph()}`)
    assert.deepEqual(broken, [], 'test/architecture/house.ts says what to do')
  })
})
