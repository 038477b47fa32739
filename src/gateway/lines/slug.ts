/**
 * A place's name as usernames spell it: `São Paulo` is `sao_paulo`. Empty when it has no Latin letter and no digit.
 */
export const slugOf = (name: string): string =>
  name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[\u0300-\u036f]/g, '')
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_|_$/g, '')
