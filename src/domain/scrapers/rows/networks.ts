import {
  accountNumber,
  byCursor,
  cursor,
  day,
  handle,
  link,
  query,
  type ScraperRow,
  scraper,
  text,
  trim,
} from '../scraper.ts'

const blueskyHosts = ['bsky.app']
const threadsHosts = ['threads.net', 'threads.com']
const truthsocialHosts = ['truthsocial.com']

/** Scrapers of bluesky, threads, truthsocial, telegram, snapchat. */
export const networks: readonly ScraperRow[] = [
  scraper('bluesky', 'profile', {
    price: '0.0030',
    summary: 'A public profile',
    inputs: [handle('bsky.app', { required: true })],
    answer: 'Name, description, counts, and whether it is verified',
    fields:
      'did handle displayName description avatar followersCount:number followsCount:number postsCount:number createdAt verification:object associated:object labels:array',
    path: '/v1/bluesky/profile',
  }),
  scraper('bluesky', 'posts', {
    price: '0.0030',
    summary: 'Posts of a profile',
    note: 'One page only',
    inputs: [
      handle('bsky.app'),
      text(
        'user_id',
        'Id of the account (did:…), which is quicker than its name',
        'did:plc:z72i7hdynmk6r22z27h6tvur',
      ),
    ],
    oneOf: [['handle', 'user_id']],
    answer: 'Posts with text, what they embed, and counts',
    fields: 'feed:object[] cursor',
    items: [
      'feed',
      'cid author:object likeCount:number record:object uri replyCount:number repostCount:number embed:object',
    ],
    path: '/v1/bluesky/user/posts',
  }),
  scraper('bluesky', 'post', {
    price: '0.0030',
    summary: 'A single post and its answers',
    inputs: [
      link('post', blueskyHosts, 'https://bsky.app/profile/espn.com/post/3lqdfq7fkvm2g', { required: true }),
    ],
    answer: 'The post and the thread below it',
    fields: 'post:object replies:object[]',
    items: ['replies', 'replies:array post:object $type threadContext:object'],
    path: '/v1/bluesky/post',
  }),
  scraper('threads', 'profile', {
    price: '0.0030',
    summary: 'A public profile',
    inputs: [handle('nasa', { required: true })],
    answer: 'Name, biography, followers and links',
    fields:
      'pk username full_name biography follower_count:number is_verified:boolean profile_pic_url bio_links:object[] is_threads_only_user:boolean hd_profile_pic_versions:object[] id text_post_app_is_private:boolean',
    items: ['bio_links', 'url is_verified:boolean link_id'],
    path: '/v1/threads/profile',
    isCacheable: true,
  }),
  scraper('threads', 'posts', {
    price: '0.0030',
    summary: 'Latest posts of a profile',
    note: 'The platform shows the last 20 to 30',
    inputs: [handle('nasa', { required: true }), trim],
    answer: 'Posts with text, counts and media',
    fields: 'posts:object[]',
    items: [
      'posts',
      'id pk code url caption:object user:object like_count:number taken_at:number media_type:number',
    ],
    path: '/v1/threads/user/posts',
  }),
  scraper('threads', 'post', {
    price: '0.0030',
    summary: 'A single post and its answers',
    inputs: [
      link('post', threadsHosts, 'https://www.threads.com/@trendspider/post/DIU8naHS6q_', { required: true }),
      trim,
    ],
    answer: 'The post, what people answered, and similar posts',
    fields: 'post:object comments:object[] relatedPosts:object[]',
    items: [
      'comments',
      'id pk code caption:object user:object like_count:number taken_at:number media_type:number image_versions2:object',
    ],
    path: '/v1/threads/post',
    isCacheable: true,
  }),
  scraper('threads', 'search', {
    price: '0.0030',
    summary: 'Posts that match some words',
    note: 'One page only',
    inputs: [
      query('Words to look for', 'basketball'),
      day('start_date', 'The first day'),
      day('end_date', 'The last day'),
      trim,
    ],
    isSearch: true,
    answer: 'At most 10 posts',
    fields: 'posts:object[]',
    items: [
      'posts',
      'id pk code caption:object user:object like_count:number taken_at:number media_type:number image_versions2:object',
    ],
    path: '/v1/threads/search',
  }),
  scraper('threads', 'search-users', {
    price: '0.0030',
    summary: 'Accounts that match some words',
    inputs: [query('Name of the account', 'nasa')],
    isSearch: true,
    answer: 'Accounts with name and picture',
    fields: 'users:object[]',
    items: ['users', 'id pk username full_name is_verified:boolean profile_pic_url'],
    path: '/v1/threads/search/users',
  }),
  scraper('truthsocial', 'profile', {
    price: '0.0030',
    summary: 'A public profile',
    note: 'Without an account only well-known people are shown',
    inputs: [handle('example', { required: true })],
    answer: 'Name, note, counts, and whether it is verified',
    fields:
      'id username display_name note url avatar followers_count:number following_count:number statuses_count:number verified:boolean created_at website',
    path: '/v1/truthsocial/profile',
  }),
  scraper('truthsocial', 'posts', {
    price: '0.0030',
    summary: 'Posts of a profile',
    note: 'Without an account only well-known people are shown',
    inputs: [
      handle('example'),
      accountNumber('107780257626128497'),
      cursor('114315219437063160', { sentAs: 'next_max_id' }),
      trim,
    ],
    oneOf: [['handle', 'user_id']],
    paging: byCursor(undefined, { send: 'next_max_id' }),
    answer: 'Posts with text, media and counts',
    fields: 'posts:object[] next_max_id',
    items: ['posts', 'id url text created_at uri media_attachments:array content'],
    path: '/v1/truthsocial/user/posts',
  }),
  scraper('truthsocial', 'post', {
    price: '0.0030',
    summary: 'A single post',
    note: 'Without an account only well-known people are shown',
    inputs: [
      link('post', truthsocialHosts, 'https://truthsocial.com/@realDonaldTrump/posts/114315219437063160', {
        required: true,
      }),
    ],
    answer: 'Text, author, media and counts',
    fields:
      'id created_at text content url account:object media_attachments:array card:any replies_count:number reblogs_count:number favourites_count:number uri',
    path: '/v1/truthsocial/post',
  }),
  scraper('snapchat', 'profile', {
    price: '0.0030',
    summary: 'A public profile',
    inputs: [handle('nasa', { required: true })],
    answer: 'Profile, highlights and spotlight videos',
    fields:
      'userProfile:object story:any curatedHighlights:object[] spotlightHighlights:object[] spotlightStoryMetadata:object[]',
    items: [
      'curatedHighlights',
      'thumbnailUrl:object storyType:number snapList:object[] storyId:object storyTitle:object storyTapId highlightId:object',
    ],
    path: '/v1/snapchat/profile',
  }),
  scraper('telegram', 'channel-posts', {
    price: '0.0030',
    summary: 'Posts of a public channel',
    inputs: [handle('telegram', { required: true }), cursor('523')],
    paging: byCursor('has_more'),
    answer: 'The channel and one page of its posts',
    fields: 'channel:object posts:object[] cursor has_more:boolean',
    items: ['posts', 'id url text published_at view_count:number reaction_count:number'],
    path: '/v1/telegram/channel/posts',
    isCacheable: true,
  }),
]
