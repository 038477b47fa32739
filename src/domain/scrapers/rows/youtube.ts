import {
  byCursor,
  choice,
  cursor,
  flag,
  handle,
  hashtag,
  language,
  link,
  position,
  query,
  type ScraperRow,
  scraper,
  text,
  vantage,
} from '../scraper.ts'

const hosts = ['youtube.com', 'youtu.be']

/** Scrapers of youtube. */
export const youtube: readonly ScraperRow[] = [
  scraper('youtube', 'channel', {
    price: '0.0030',
    summary: 'A single channel',
    inputs: [
      text('channel_id', 'Id of the channel', 'UCLA_DiR1FfKNvjuUpBHmylQ', { sentAs: 'channelId' }),
      handle('NASA'),
      link('channel', hosts, 'https://www.youtube.com/@NASA'),
    ],
    oneOf: [['channel_id', 'handle', 'url']],
    answer: 'Name, description, totals, links, country, and the date it began',
    fields:
      'channelId channel name description subscriberCount:number videoCountText viewCountText joinedDateText country tags email:any links:string[] avatar:object',
    path: '/v1/youtube/channel',
    isCacheable: true,
  }),
  scraper('youtube', 'channel-videos', {
    price: '0.0030',
    summary: 'Videos of a channel',
    inputs: [
      text('channel_id', 'Id of the channel', 'UCLA_DiR1FfKNvjuUpBHmylQ', { sentAs: 'channelId' }),
      handle('NASA'),
      choice('sort', 'Which videos come first', ['latest', 'popular'], 'latest', { default: 'latest' }),
      flag('include_extras', 'Adds likes, number of comments and description, and takes longer', {
        sentAs: 'includeExtras',
      }),
      cursor('4qmFsgKr...', { sentAs: 'continuationToken' }),
    ],
    oneOf: [['channel_id', 'handle']],
    paging: byCursor(undefined, { send: 'continuationToken' }),
    answer: 'Videos with views, date and length',
    fields: 'videos:object[] continuationToken',
    items: [
      'videos',
      'id url title description viewCountInt:number thumbnail viewCountText publishedTimeText lengthText',
    ],
    path: '/v1/youtube/channel-videos',
  }),
  scraper('youtube', 'channel-shorts', {
    price: '0.0030',
    summary: 'Shorts of a channel',
    inputs: [
      text('channel_id', 'Id of the channel', 'UCLA_DiR1FfKNvjuUpBHmylQ', { sentAs: 'channelId' }),
      handle('NASA'),
      choice('sort', 'Which shorts come first', ['newest', 'popular'], 'newest', { default: 'newest' }),
      cursor('4qmFsgKr...', { sentAs: 'continuationToken' }),
    ],
    oneOf: [['channel_id', 'handle']],
    paging: byCursor(undefined, { send: 'continuationToken' }),
    answer: 'Shorts with views and likes',
    fields:
      'shorts:object[] continuationToken videos:array channels:array playlists:array shelves:array lives:array',
    items: [
      'shorts',
      'id url title description publishDate viewCountInt:number thumbnail viewCountText commentCountInt:number',
    ],
    path: '/v1/youtube/channel/shorts',
  }),
  scraper('youtube', 'video', {
    price: '0.0030',
    summary: 'A single video or short',
    note: 'An age-restricted video is target_restricted',
    inputs: [
      link('video', hosts, 'https://www.youtube.com/watch?v=dQw4w9WgXcQ', { required: true }),
      language('Language that is wanted, two letters', 'en'),
    ],
    answer: 'Title, counts, chapters, channel, keywords and which captions there are',
    fields:
      'id url title description:any publishDate viewCountInt:number likeCountInt:number commentCountInt:number durationMs:number channel:object chapters:array keywords:array genre',
    path: '/v1/youtube/video',
    isCacheable: true,
  }),
  scraper('youtube', 'search', {
    price: '0.0030',
    summary: 'Videos, shorts, channels and playlists that match some words',
    inputs: [
      query('Words to look for', 'saturn'),
      choice(
        'upload_date',
        'How old at most',
        ['today', 'this_week', 'this_month', 'this_year'],
        'this_month',
        { sentAs: 'uploadDate' },
      ),
      choice('sort_by', 'Which results come first', ['relevance', 'popular'], 'relevance', {
        default: 'relevance',
        sentAs: 'sortBy',
      }),
      choice('type', 'What to look for', ['videos', 'shorts', 'channels', 'playlists'], 'videos'),
      choice(
        'duration',
        'How long; videos only',
        ['under_3_min', 'between_3_and_20_min', 'over_20_min'],
        'over_20_min',
      ),
      vantage,
      flag('include_extras', 'Adds likes, number of comments and description, and takes longer', {
        sentAs: 'includeExtras',
      }),
      cursor('4qmFsgKr...', { sentAs: 'continuationToken' }),
    ],
    isSearch: true,
    paging: byCursor(undefined, { send: 'continuationToken' }),
    answer: 'One list for each kind of result, live streams too',
    fields:
      'videos:object[] channels:array playlists:array shorts:object[] shelves:object[] lives:array continuationToken',
    items: [
      'videos',
      'id url title viewCountInt:number thumbnail viewCountText publishedTimeText lengthText lengthSeconds:number',
    ],
    path: '/v1/youtube/search',
  }),
  scraper('youtube', 'comments', {
    price: '0.0030',
    summary: 'What people commented on a video',
    note: 'The platform shows some 1,000 of the top or 7,000 of the newest',
    inputs: [
      link('video', hosts, 'https://www.youtube.com/watch?v=dQw4w9WgXcQ', { required: true }),
      choice('order', 'Which comments come first', ['top', 'newest'], 'top', { default: 'top' }),
      cursor('4qmFsgKr...', { sentAs: 'continuationToken' }),
    ],
    paging: byCursor(undefined, { send: 'continuationToken' }),
    answer: 'Comments with author, likes, and what comment-replies asks for',
    fields: 'comments:object[] continuationToken',
    items: ['comments', 'id author:object content publishedTimeText'],
    path: '/v1/youtube/video/comments',
  }),
  scraper('youtube', 'trending-shorts', {
    price: '0.0030',
    summary: 'Shorts that many watch just now',
    inputs: [],
    answer: 'Some 48 shorts; each call shows others',
    fields: 'shorts:object[]',
    items: [
      'shorts',
      'id url title publishDate viewCountInt:number thumbnail viewCountText channel:object commentCountInt:number',
    ],
    path: '/v1/youtube/shorts/trending',
  }),
  scraper('youtube', 'search-hashtag', {
    price: '0.0030',
    summary: 'Videos under a hashtag',
    inputs: [
      hashtag('space'),
      choice('type', 'Everything, or shorts only', ['all', 'shorts'], 'all', { default: 'all' }),
      cursor('4qmFsgKr...', { sentAs: 'continuationToken' }),
    ],
    isSearch: true,
    paging: byCursor(undefined, { send: 'continuationToken' }),
    answer: 'Videos with views, date and channel',
    fields: 'videos:object[] continuationToken',
    items: [
      'videos',
      'id url title description viewCountInt:number thumbnail viewCountText publishedTimeText lengthText',
    ],
    path: '/v1/youtube/search/hashtag',
  }),
  scraper('youtube', 'comment-replies', {
    price: '0.0030',
    summary: 'Answers to a single comment',
    inputs: [
      position(
        'cursor',
        '`repliesContinuationToken` of the comment that comments gave; then `nextCursor` of the page before',
        'Eg0SC2RR...',
        { required: true, sentAs: 'continuationToken' },
      ),
    ],
    paging: byCursor(undefined, { send: 'continuationToken' }),
    answer: 'Answers with author and likes',
    fields: 'comments:object[] continuationToken',
    items: ['comments', 'id author:object content publishedTimeText'],
    path: '/v1/youtube/video/comment/replies',
  }),
  scraper('youtube', 'playlist', {
    price: '0.0030',
    summary: 'A single playlist',
    inputs: [
      text(
        'playlist_id',
        'What stands behind list= in the link of the playlist',
        'PLP32wGpgzmIlInfgKVFfCwVsxgGqZNIiS',
        { required: true },
      ),
    ],
    answer: 'Owner, title and every video',
    fields: 'title owner:object totalVideos:number videos:object[]',
    items: ['videos', 'id url title thumbnail lengthText lengthSeconds:number channel:object'],
    path: '/v1/youtube/playlist',
  }),
  scraper('youtube', 'community-post', {
    price: '0.0030',
    summary: "A single post of a channel's community",
    inputs: [
      link('post', hosts, 'https://www.youtube.com/post/Ugkxvj2KoApYAXoqLWnKVr6zZe5JjeHrQeP8', {
        required: true,
      }),
    ],
    answer: 'Text, images, likes and channel',
    fields:
      'id channel:object content images:string[] likeCount:number publishedTime video:any publishedTimeText',
    path: '/v1/youtube/community-post',
  }),
  scraper('youtube', 'transcript', {
    price: '0.0300',
    summary: 'What is said in a video or short, as text',
    note: 'The video needs captions; it may be of any length',
    inputs: [
      link('video', hosts, 'https://www.youtube.com/watch?v=dQw4w9WgXcQ', { required: true }),
      language('Language of the captions, two letters; null where there are none in it', 'en'),
    ],
    nothingWhenNull: 'transcript',
    answer: 'Lines with their times, and one plain text',
    fields: 'videoId url transcript:object[] transcript_only_text language type',
    items: ['transcript', 'text startMs endMs startTimeText'],
    path: '/v1/youtube/video/transcript',
    isCacheable: true,
    timeoutSeconds: 60,
  }),
]
