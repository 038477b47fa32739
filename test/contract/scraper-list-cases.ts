import type { HttpClient } from '../support/http.ts'
import type { Case } from './case.ts'

/** Of the list of scrapers, which needs no key. */
const paths = {
  listScrapers: '/v1/scrape',
  listPlatformScrapers: '/v1/scrape/reddit',
  getScraper: '/v1/scrape/reddit/subreddit',
} as const
const operations = Object.entries(paths)

export const scraperListCases = (client: HttpClient): readonly Case[] => [
  ...operations.map(([operation, path]) => ({
    operation,
    answer: '200',
    how: 'as it should be',
    send: () => client.get(path),
  })),
  {
    operation: 'listScrapers',
    answer: '400 invalid_parameter',
    how: 'an empty text',
    send: () => client.get('/v1/scrape?q='),
  },
  {
    operation: 'listScrapers',
    answer: '400 invalid_parameter',
    how: 'a price that is none',
    send: () => client.get('/v1/scrape?maxPriceUsd=cheap'),
  },
  ...operations.map(([operation, path]) => ({
    operation,
    answer: '400 invalid_parameter',
    how: 'an unknown query parameter',
    send: () => client.get(`${path}?colour=1`),
  })),
  {
    operation: 'getScraper',
    answer: '404 unknown_scraper',
    how: 'an operation that there is not',
    send: () => client.get('/v1/scrape/reddit/nothing'),
  },
  {
    operation: 'listPlatformScrapers',
    answer: '404 unknown_scraper',
    how: 'a platform that there is not',
    send: () => client.get('/v1/scrape/nothing'),
  },
  {
    operation: 'listPlatformScrapers',
    answer: '404 not_found',
    how: 'a name that none has',
    send: () => client.get(`/v1/scrape/${'x'.repeat(101)}`),
  },
  {
    operation: 'getScraper',
    answer: '404 not_found',
    how: 'a name that none has',
    send: () => client.get(`/v1/scrape/reddit/${'x'.repeat(101)}`),
  },
]

/** @param client of a service in which each address may ask once a second */
export const scraperListLimited = (client: HttpClient): readonly Case[] =>
  operations.map(([operation, path]) => ({
    operation,
    answer: '429 rate_limited',
    how: 'at once',
    send: async () => {
      const answers = await Promise.all([client.get(path), client.get(path), client.get(path)])
      return answers.find(({ status }) => status === 429) ?? answers[0]
    },
  }))

/** @param client of a service that cannot read how scrapers did */
export const scraperListBlind = (client: HttpClient): readonly Case[] =>
  operations.map(([operation, path]) => ({
    operation,
    answer: '503 overloaded',
    how: 'their record is locked',
    send: () => client.get(path),
  }))
