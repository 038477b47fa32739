import { byCursor, choice, cursor, link, query, type ScraperRow, scraper, text, trim } from '../scraper.ts'

const hosts = ['reddit.com', 'redd.it']

/** Scrapers of reddit. */
export const reddit: readonly ScraperRow[] = [
  scraper('reddit', 'subreddit', {
    price: '0.0030',
    summary: 'A subreddit and its rules',
    note: 'Upper and lower case matter in names',
    inputs: [
      text('subreddit', 'Name of the subreddit without r/; upper and lower case matter', 'AskReddit'),
      link('subreddit', hosts, 'https://www.reddit.com/r/AskReddit/'),
    ],
    oneOf: [['subreddit', 'url']],
    answer: 'Description, rules, and how many people follow it and are active',
    fields:
      'subreddit_id display_name description subscribers:number weekly_active_users:number weekly_contributions:number rules icon_img created_at header_img:any advertiser_category submit_text',
    path: '/v1/reddit/subreddit/details',
    isCacheable: true,
  }),
  scraper('reddit', 'subreddit-posts', {
    price: '0.0030',
    summary: 'Posts of a subreddit',
    inputs: [
      text('subreddit', 'Name of the subreddit without r/; upper and lower case matter', 'AskReddit', {
        required: true,
      }),
      choice('sort', 'Which posts come first', ['best', 'hot', 'new', 'top', 'rising'], 'hot'),
      choice('timeframe', 'How old top posts may be', ['all', 'day', 'week', 'month', 'year'], 'week'),
      cursor('t3_1i8z28z', { sentAs: 'after' }),
      trim,
    ],
    paging: byCursor(undefined, { send: 'after' }),
    answer: 'Posts with author, text, score and number of comments',
    fields: 'posts:object[] after',
    items: ['posts', 'id url title name author score:number thumbnail selftext num_comments:number'],
    path: '/v1/reddit/subreddit',
    isCacheable: true,
  }),
  scraper('reddit', 'comments', {
    price: '0.0030',
    summary: 'A post and what people commented on it',
    note: 'Each branch has a cursor of its own; send one at a time. Send the whole link, not a shortened one',
    inputs: [
      link('post', hosts, 'https://www.reddit.com/r/AskReddit/comments/ablzuq/', { required: true }),
      cursor('opaque'),
      trim,
    ],
    paging: byCursor('more.has_more', { read: 'more.cursor' }),
    answer: 'The post and its tree of comments',
    fields: 'post:object comments:object[] more:object',
    items: ['comments', 'id url name author score:number body replies:object permalink subreddit'],
    path: '/v1/reddit/post/comments',
    takesPost: true,
  }),
  scraper('reddit', 'search', {
    price: '0.0030',
    summary: 'Posts of any subreddit that match some words',
    inputs: [
      query('Words to look for', 'best programming languages'),
      choice('sort', 'Which results come first', ['relevance', 'new', 'top', 'comment_count'], 'relevance', {
        default: 'relevance',
      }),
      choice('timeframe', 'How old at most', ['all', 'day', 'week', 'month', 'year'], 'all', {
        default: 'all',
      }),
      cursor('t3_1i8z28z', { sentAs: 'after' }),
      trim,
    ],
    isSearch: true,
    paging: byCursor(undefined, { send: 'after' }),
    answer: 'Posts with author, text and score',
    fields: 'posts:object[] after',
    items: ['posts', 'id url title name author score:number thumbnail selftext num_comments:number'],
    path: '/v1/reddit/search',
  }),
  scraper('reddit', 'subreddit-search', {
    price: '0.0030',
    summary: 'Posts and comments of one subreddit that match some words',
    inputs: [
      text('subreddit', 'Name of the subreddit without r/', 'Fitness', { required: true }),
      text('query', 'Words to look for', 'push ups'),
      choice('sort', 'Which results come first', ['relevance', 'hot', 'top', 'new', 'comments'], 'relevance'),
      choice('timeframe', 'How old at most', ['all', 'year', 'month', 'week', 'day', 'hour'], 'all'),
      cursor('eyJjYW5k...'),
    ],
    isSearch: true,
    paging: byCursor(),
    answer: 'Posts, comments and media',
    fields: 'posts:object[] comments:object[] media:object[] cursor',
    items: [
      'posts',
      'id post_id url title created_at num_comments:number permalink subreddit:object votes:number',
    ],
    path: '/v1/reddit/subreddit/search',
  }),
]
